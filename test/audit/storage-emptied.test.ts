/** F5: a storage that holds nothing is told in the audit trail: at the start, and when it comes back empty. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isEmpty, refoundIfEmpty } from '../../src/storage/key-check.ts';
import { createSqliteStore } from '../../src/storage/sqlite/store.ts';
import { makeSealer } from '../support/encryption-keys.ts';
import { getJson, signIn, startSite, type TestSite } from '../support/gatehouse.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

test('F5: the first start tells it once, and a start on what is kept does not', async () => {
  await site.restart();
  const { agent } = await signIn(site, 'admin@example.test');
  const { json } = await getJson(agent, `${site.url}/admin/api/audit?event=storage.found_empty`);
  expect(json.items).toMatchObject([{ actor: { kind: 'system' } }]);
});

test('F5: a store that has lost everything is founded again, by one of those who see it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-emptied-'));
  const store = await createSqliteStore({ directory, clock: Date.now, random: Math.random });
  const sealer = makeSealer();
  expect(await isEmpty(store)).toBe(true);
  expect([await refoundIfEmpty(store, sealer), await refoundIfEmpty(store, sealer)]).toEqual([true, false]);
  await store.close();
  rmSync(directory, { recursive: true });
});
