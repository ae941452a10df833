/** Scheduled checks of connected apps: the last result is in the list, on the page, in the API and on the overview. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite({ env: { CONNECTION_CHECK_SECONDS: '4' } });
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(() => site.close());

interface LastCheck {
  at: string;
  failures: number;
  firstFailure: string | null;
  findings?: unknown[];
}
const readApi = async (path: string) => (await getJson(agent, `${site.url}/admin/api/${path}`)).json;
const open = (path: string) => agent.get(`${site.url}/admin/${path}`);
const readLastCheck = async () => (await readApi('connected-apps/platform')).lastCheck as LastCheck | null;
const readChecksInAudit = async () => (await readApi('audit?event=connected_app.checked')).items as { actor: object }[];

test('an app is checked by schedule, and again when it is due', async () => {
  await expect.poll(readLastCheck).toMatchObject({ failures: 0, firstFailure: null });
  const first = await readLastCheck();
  expect(first?.findings?.length).toBeGreaterThan(10);
  await expect.poll(async () => (await readLastCheck())?.at).not.toBe(first?.at);
  const { items } = await readApi('connected-apps');
  expect(items).toMatchObject([{ lastCheck: { failures: 0 } }]);
  expect(JSON.stringify(items)).not.toContain('findings');
});

test('a changed result is audited once, and shown on the overview and in the list', async () => {
  const countBefore = (await readChecksInAudit()).length;
  site.sandbox.faults.set({
    ...{ listener: 'identity-provider', path: '/token', kind: 'response', status: 401 },
    body: { error: 'invalid_client' },
  });
  await expect.poll(async () => (await readLastCheck())?.failures).toBe(1);
  const failed = await readLastCheck();
  expect(failed?.firstFailure).toContain('does not accept the client ID with this secret');
  expect((await open('connected-apps')).body).toContain('does not accept the client ID with this secret');
  expect((await open('connected-apps/platform/check')).body).toContain('1 problem found');
  const { attention } = await readApi('overview');
  expect(attention).toContainEqual(
    expect.objectContaining({
      ...{ kind: 'app_check_failed', severity: 'critical', path: '/connected-apps/platform/check' },
      detail: failed?.firstFailure,
    }),
  );
  // The second check with the same result.
  await expect.poll(async () => (await readLastCheck())?.at).not.toBe(failed?.at);
  await expect.poll(async () => (await readChecksInAudit()).length).toBe(countBefore + 1);
  expect((await readChecksInAudit())[0]).toMatchObject({
    ...{ actor: { kind: 'system' }, target: { id: 'platform' }, outcome: 'failed' },
    facts: { problems: ['client_authentication'] },
  });
  site.sandbox.faults.clear();
  await expect.poll(async () => (await readLastCheck())?.failures).toBe(0);
  await expect.poll(async () => (await readChecksInAudit())[0]).toMatchObject({ outcome: 'passed' });
});
