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
  site = await startSite({ env: { RATE_LIMIT_PER_RELAY_TOKEN: '0' } });
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
  for (let n = 0; n < 200; n += 20) {
    const calls = Array.from({ length: 20 }, (_, at) => call(`made-up-text-${n + at}`));
    for (const { status } of await Promise.all(calls)) expect(status).toBeGreaterThanOrEqual(400);
  }
  const entries = async () =>
    (await admin.call('GET', `/audit?event=relay.refused&actor=${id}&limit=200`)).json.items as unknown[];
  await until(async () => (await entries()).length > 0);
  await sleep(1_000);
  expect((await entries()).length).toBeLessThan(5);
  expect(JSON.stringify(await entries())).not.toContain('made-up-text');
});
