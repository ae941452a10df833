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

const secondFactorCode = () => site.sandbox.secondFactorCode(ADMIN) ?? '';
/** Completes the forms of the provider, including the one for the code of the second factor. */
async function completeSignIn(agent: UserAgent, start: Page): Promise<Page> {
  let page = start;
  if (page.body.includes('name="password"')) page = await agent.submit(page, { login: ADMIN, password: PASSWORD });
  if (page.body.includes('name="code"')) page = await agent.submit(page, { code: secondFactorCode() });
  while (page.forms.some((form) => form.buttons.some(({ text }) => text === 'Allow')))
    page = await agent.submit(page, {}, { button: 'Allow' });
  return page;
}
/** The parameters of the authorization request that led to this page. */
const authorizationRequestOf = ({ visited }: Page) =>
  new URL(visited.find((url) => url.includes('/authorize?')) ?? '').searchParams;

describe('with ADMIN_ACR', () => {
  test('R88 a page redirects to the second factor once, and back to itself', async () => {
    const { agent } = await signIn(site, ADMIN);
    const csrfTokenBefore = (await getJson(agent, `${site.url}/session`)).json.csrfToken;

    const codePage = await agent.get(`${site.url}/admin/users?q=admin`);
    expect(codePage.body).toContain('name="code"');
    expect(codePage.body).not.toContain('name="password"');
    expect(authorizationRequestOf(codePage).get('acr_values')).toBe('mfa');
    expect(authorizationRequestOf(codePage).get('max_age')).toBe('900');

    const page = await agent.submit(codePage, { code: secondFactorCode() });
    expect([page.status, page.url]).toEqual([200, `${site.url}/admin/users?q=admin`]);
    expect((await agent.get(`${site.url}/admin`)).visited).toHaveLength(1);
    // The session cookie from before the step-up is no longer valid (R17).
    expect((await getJson(agent, `${site.url}/session`)).json.csrfToken).not.toBe(csrfTokenBefore);
    await expect
      .poll(async () => (await getJson(agent, `${site.url}/admin/api/audit?event=admin.stepped_up`)).json.items)
      .toMatchObject([{ actor: { kind: 'user', name: ADMIN }, address: '127.0.0.1', facts: { acr: 'mfa' } }]);
  });

  test('R30 does not shorten the connection of the administrator', async () => {
    const { agent } = await signIn(site, ADMIN);
    const readConnections = async () => (await getJson(agent, `${site.url}/connections`)).json.items;
    expect(await readConnections()).toMatchObject([{ health: 'active' }]);
    expect((await completeSignIn(agent, await agent.get(`${site.url}/admin`))).url).toBe(`${site.url}/admin`);
    expect(await readConnections()).toMatchObject([
      { health: 'active', scopes: expect.arrayContaining(['offline_access']) },
    ]);
  });

  test('R88 forms and API refuse a weaker session with the address of the step-up, and accept an admin token', async () => {
    const { agent } = await signIn(site, ADMIN);
    const { json } = await getJson(agent, `${site.url}/session`);
    const refused = await getJson(agent, `${site.url}/admin/api/users`);
    const connectUrl = `${site.url}/sign-in?app=platform&step_up=1&return_to=%2Fadmin`;
    expect([refused.status, refused.json]).toMatchObject([403, { code: 'step_up_required', connectUrl }]);
    expect((await getJson(agent, `${site.url}/admin`)).json).toMatchObject({ code: 'step_up_required' });
    const body = new URLSearchParams({ _csrf: String(json.csrfToken), name: 'made weakly' });
    const options = { method: 'POST', body, headers: { origin: site.url } };
    const form = await agent.request(`${site.url}/admin/admin-tokens`, options);
    expect(form.status).toBe(403);
    expect(form.body).toContain(connectUrl.replaceAll('&', '&amp;'));
    expect((await completeSignIn(agent, await agent.get(connectUrl))).url).toBe(`${site.url}/admin`);
    expect((await getJson(agent, `${site.url}/admin/api/users`)).status).toBe(200);

    const store = await createSqliteStore({ directory: site.dataDirectory });
    const withAdminToken = await createAdministrator(site, { store, sealer: sealerOf(site.env) });
    expect((await withAdminToken.call('GET', '/users')).status).toBe(200);
    await store.close();
  });

  test('R88 a user who is not an administrator is refused, also after a step-up', async () => {
    const { agent } = await signIn(site);
    const page = await agent.get(`${site.url}/admin`);
    expect([page.status, page.visited.length]).toEqual([403, 1]);
    const pageAfterStepUp = await completeSignIn(
      agent,
      await agent.get(`${site.url}/sign-in?app=platform&step_up=1&return_to=/admin`),
    );
    expect([pageAfterStepUp.status, pageAfterStepUp.body.includes('second factor')]).toEqual([403, true]);
  });

  /** Does a step-up with changed parameters of the authorization request. */
  const stepUpWith = async (agent: UserAgent, change: (parameters: URLSearchParams) => void) => {
    const redirect = await agent.get(`${site.url}/sign-in?app=platform&step_up=1&return_to=/admin`, { follow: false });
    const url = new URL(redirect.headers.get('location') ?? '');
    change(url.searchParams);
    return completeSignIn(agent, await agent.get(url.href));
  };
  const expectRefused = (page: Page, cause = 'did not ask you for the stronger sign-in') => {
    expect([page.status, new URL(page.url).pathname]).toEqual([403, '/oauth/callback/platform']);
    expect(page.body).toContain(cause);
    expect(page.body).toContain('/sign-in?app=platform&amp;step_up=1');
  };

  test('R18 an ID token with another acr shows an error page without a redirect loop, and keeps the session', async () => {
    const { agent } = await signIn(site, ADMIN);
    expectRefused(await stepUpWith(agent, (parameters) => parameters.delete('acr_values')));
    expect((await getJson(agent, `${site.url}/session`)).json).toMatchObject({ signedIn: true });
    expect((await getJson(agent, `${site.url}/admin/api/users`)).status).toBe(403);
  });

  test('R18 rejects a step-up that is too old or of unknown age', async () => {
    const { agent } = await signIn(site, ADMIN);
    await completeSignIn(agent, await agent.get(`${site.url}/admin`));
    advanceClock(1_000);
    expectRefused(await stepUpWith(agent, (parameters) => parameters.set('max_age', '100000')));
    const unknownAge = 'did not say when you last signed in there';
    expectRefused(await stepUpWith(agent, (parameters) => parameters.delete('max_age')), unknownAge);

    // With an unchanged request, the provider requires a new authentication.
    const login = await agent.get(`${site.url}/sign-in?app=platform&step_up=1&return_to=/admin`);
    expect(login.body).toContain('name="password"');
    expect((await completeSignIn(agent, login)).url).toBe(`${site.url}/admin`);
    const { json } = await getJson(agent, `${site.url}/admin/api/sign-ins?limit=50`);
    expect(JSON.stringify(json)).toContain('step_up_refused');
  });
});
