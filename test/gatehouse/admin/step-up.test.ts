/** The stronger sign-in that ADMIN_ACR requires for the administration, with the second factor of the sandbox. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Page, UserAgent } from '../../support/browserless.ts';
import { sealerOf } from '../../support/encryption-keys.ts';
import { getJson, PASSWORD, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { createAdministrator } from '../relay/service.ts';

const ADMIN = 'admin@example.test';
let site: TestSite;
beforeAll(async () => {
  site = await startSite({ env: { ADMIN_ACR: 'mfa' } });
});
afterAll(() => site.close());
afterEach(() => site.sandbox.faults.clear());

const code = () => site.sandbox.secondFactorCode(ADMIN) ?? '';
/** Through the provider's forms, its page for the code included. */
async function through(agent: UserAgent, start: Page): Promise<Page> {
  let page = start;
  if (page.body.includes('name="password"')) page = await agent.submit(page, { login: ADMIN, password: PASSWORD });
  if (page.body.includes('name="code"')) page = await agent.submit(page, { code: code() });
  while (page.forms.some((form) => form.buttons.some(({ text }) => text === 'Allow')))
    page = await agent.submit(page, {}, { button: 'Allow' });
  return page;
}
const startedAt = ({ visited }: Page) => new URL(visited.find((url) => url.includes('/authorize?')) ?? '').searchParams;

describe('with ADMIN_ACR', () => {
  test('R88 a page redirects to the second factor once, and back to itself', async () => {
    const { agent } = await signIn(site, ADMIN);
    const before = (await getJson(agent, `${site.url}/session`)).json.csrfToken;
    const asked = await agent.get(`${site.url}/admin/users?q=admin`);
    expect(asked.body).toContain('name="code"');
    expect(asked.body).not.toContain('name="password"');
    expect(startedAt(asked).get('acr_values')).toBe('mfa');
    expect(startedAt(asked).get('max_age')).toBe('900');
    const page = await agent.submit(asked, { code: code() });
    expect([page.status, page.url]).toEqual([200, `${site.url}/admin/users?q=admin`]);
    expect((await agent.get(`${site.url}/admin`)).visited).toHaveLength(1);
    // The session cookie from before the step-up is no longer valid (R17).
    expect((await getJson(agent, `${site.url}/session`)).json.csrfToken).not.toBe(before);
    await expect
      .poll(async () => (await getJson(agent, `${site.url}/admin/api/audit?event=admin.stepped_up`)).json.items)
      .toMatchObject([{ actor: { kind: 'user', name: ADMIN }, address: '127.0.0.1', facts: { acr: 'mfa' } }]);
  });

  test('R30 does not shorten the connection of the administrator', async () => {
    const { agent } = await signIn(site, ADMIN);
    const connection = async () => (await getJson(agent, `${site.url}/session`)).json.connections;
    expect(await connection()).toMatchObject([{ health: 'active' }]);
    expect((await through(agent, await agent.get(`${site.url}/admin`))).url).toBe(`${site.url}/admin`);
    expect(await connection()).toMatchObject([
      { health: 'active', scopes: expect.arrayContaining(['offline_access']) },
    ]);
  });

  test('R88 forms and API refuse a weaker session with the address of the step-up, and accept an admin token', async () => {
    const { agent } = await signIn(site, ADMIN);
    const { json } = await getJson(agent, `${site.url}/session`);
    const told = await getJson(agent, `${site.url}/admin/api/users`);
    const connectUrl = `${site.url}/sign-in?app=platform&step_up=1&return_to=%2Fadmin`;
    expect([told.status, told.json]).toMatchObject([403, { code: 'step_up_required', connectUrl }]);
    expect((await getJson(agent, `${site.url}/admin`)).json).toMatchObject({ code: 'step_up_required' });
    const body = new URLSearchParams({ _csrf: String(json.csrfToken), name: 'made weakly' });
    const options = { method: 'POST', body, headers: { origin: site.url } };
    const form = await agent.request(`${site.url}/admin/admin-tokens`, options);
    expect(form.status).toBe(403);
    expect(form.body).toContain(connectUrl.replaceAll('&', '&amp;'));
    expect((await through(agent, await agent.get(connectUrl))).url).toBe(`${site.url}/admin`);
    expect((await getJson(agent, `${site.url}/admin/api/users`)).status).toBe(200);

    const store = await createSqliteStore({ directory: site.dataDirectory });
    expect(
      (await (await createAdministrator(site, { store, sealer: sealerOf(site.env) })).call('GET', '/users')).status,
    ).toBe(200);
    await store.close();
  });

  test('R88 a user who is not an administrator is refused, also after a step-up', async () => {
    const { agent } = await signIn(site);
    const page = await agent.get(`${site.url}/admin`);
    expect([page.status, page.visited.length]).toEqual([403, 1]);
    const stepped = await through(
      agent,
      await agent.get(`${site.url}/sign-in?app=platform&step_up=1&return_to=/admin`),
    );
    expect([stepped.status, stepped.body.includes('second factor')]).toEqual([403, true]);
  });

  /** Begins a step-up whose request loses or gains something on the way. */
  const begunWith = async (agent: UserAgent, change: (parameters: URLSearchParams) => void) => {
    const begun = await agent.get(`${site.url}/sign-in?app=platform&step_up=1&return_to=/admin`, { follow: false });
    const url = new URL(begun.headers.get('location') ?? '');
    change(url.searchParams);
    return through(agent, await agent.get(url.href));
  };
  const expectRefused = (page: Page, cause = 'did not ask you for the stronger sign-in') => {
    expect([page.status, new URL(page.url).pathname]).toEqual([403, '/oauth/callback/platform']);
    expect(page.body).toContain(cause);
    expect(page.body).toContain('/sign-in?app=platform&amp;step_up=1');
  };

  test('R18 an ID token with another acr shows an error page without a redirect loop, and keeps the session', async () => {
    const { agent } = await signIn(site, ADMIN);
    expectRefused(await begunWith(agent, (parameters) => parameters.delete('acr_values')));
    expect((await getJson(agent, `${site.url}/session`)).json).toMatchObject({ signedIn: true });
    expect((await getJson(agent, `${site.url}/admin/api/users`)).status).toBe(403);
  });

  test('R18 rejects a step-up that is too old or of unknown age', async () => {
    const { agent } = await signIn(site, ADMIN);
    await through(agent, await agent.get(`${site.url}/admin`));
    advanceClock(1_000);
    expectRefused(await begunWith(agent, (parameters) => parameters.set('max_age', '100000')));
    const unknownAge = 'did not say when you last signed in there';
    expectRefused(await begunWith(agent, (parameters) => parameters.delete('max_age')), unknownAge);
    // Asked as it should be, the provider wants to see it once more.
    const again = await agent.get(`${site.url}/sign-in?app=platform&step_up=1&return_to=/admin`);
    expect(again.body).toContain('name="password"');
    expect((await through(agent, again)).url).toBe(`${site.url}/admin`);
    const { json } = await getJson(agent, `${site.url}/admin/api/sign-ins?limit=50`);
    expect(JSON.stringify(json)).toContain('step_up_refused');
  });
});
