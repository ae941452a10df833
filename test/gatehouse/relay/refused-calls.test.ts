/** R94: refused calls of a service write few audit entries, and none holds a text that the service sent. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { createAdministrator, relayThread } from './service.ts';

let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite({ env: { RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE: '0' } });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

test('R94 200 refused calls for different unknown apps write fewer than 5 audit entries', async () => {
  const admin = await createAdministrator(site, storage);
  const { id, token } = await admin.createRelayToken();
  const call = (app: string) => relayThread(site, token, { 'gatehouse-service-account': 'x' }, `?app=${app}`);
  for (let start = 0; start < 200; start += 20) {
    const calls = Array.from({ length: 20 }, (_, index) => call(`made-up-text-${start + index}`));
    for (const { status } of await Promise.all(calls)) expect(status).toBeGreaterThanOrEqual(400);
  }

  const readEntries = async () =>
    (await admin.call('GET', `/audit?event=relay.refused&actor=${id}&limit=200`)).json.items as unknown[];
  await until(async () => (await readEntries()).length > 0);
  // Entries are written in the background, so more of them would still come.
  await sleep(1_000);
  expect((await readEntries()).length).toBeLessThan(5);
  expect(JSON.stringify(await readEntries())).not.toContain('made-up-text');
});
