/** F5: a start on an empty storage is audited. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

test('F5 audits the first start on an empty storage, and no later start', async () => {
  await site.restart();
  const { agent } = await signIn(site, 'admin@example.test');
  const { json } = await getJson(agent, `${site.url}/admin/api/audit?event=storage.found_empty`);
  expect(json.items).toMatchObject([{ actor: { kind: 'system' } }]);
});
