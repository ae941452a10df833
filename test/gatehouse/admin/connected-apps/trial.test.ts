/** Trials of an app by an administrator: they end at the sign-in record, and keep the administrator's session. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page, UserAgent } from '../../../support/browserless.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite({
    env: { ADMIN_APP: 'platform' },
    apps: (at) => [sandboxApp(at, 'platform'), sandboxApp(at, 'second', { id: 'off', disabled: true })],
  });
  ({ agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' }));
  const provider = { id: 'second', name: 'Second', issuer: site.sandbox.issuer };
  const form = await agent.submit(await open('register-app'), provider, { button: 'Continue' });
  const registration = { clientId: 'test-second', clientSecret: CLIENT_SECRET, signIn: 'everyone' };
  await agent.submit(form, registration, { button: 'Register app' });
});
afterAll(() => site.close());

const open = (path: string) => agent.get(`${site.url}/admin/${path}`);
const readSession = async () => (await getJson(agent, `${site.url}/session`)).json;
const readConnectedApps = async () =>
  ((await getJson(agent, `${site.url}/connections`)).json.items as { app: string }[]).map(({ app }) => app);

/** Starts a trial on the page of the check, and completes the pages of the provider. */
async function tryApp(id: string, consentButton: 'Allow' | 'Deny' = 'Allow'): Promise<Page> {
  let page = await agent.submit(await open(`connected-apps/${id}/check`), {}, { button: 'Try a sign-in' });
  while (page.forms.some(({ buttons }) => buttons.some(({ text }) => text === consentButton)))
    page = await agent.submit(page, {}, { button: consentButton });
  return page;
}

test('a successful trial ends at its record, keeps the session, and connects the app', async () => {
  const sessionBefore = await readSession();
  const page = await tryApp('second');
  expect([page.status, new URL(page.url).pathname]).toEqual([200, expect.stringMatching(/^\/admin\/sign-ins\/\w+$/)]);
  for (const words of ['The trial worked', 'User may sign in<span class="visually-hidden">: passed'])
    expect(page.body).toContain(words);
  expect(await readSession()).toEqual(sessionBefore);
  expect(await readConnectedApps()).toContain('second');
  const id = new URL(page.url).pathname.split('/').at(-1);
  const { json } = await getJson(agent, `${site.url}/admin/api/sign-ins/${id}`);
  expect(json).toMatchObject({ trial: true, purpose: 'connect', outcome: 'connected' });
  const checkPage = await agent.get(`${site.url}/admin/connected-apps/second/check`);
  const checked = await agent.submit(checkPage, {}, { button: 'Check now' });
  expect(checked.body).toContain('The last sign-in returned a refresh token.');
});

test('a trial that is refused at the provider ends at its record, with the cause', async () => {
  // Without a connection, the provider asks for consent again, which can be denied.
  await agent.submit(await agent.get(`${site.url}/connections/second`), {}, { button: 'Disconnect' });
  const page = await tryApp('second', 'Deny');
  expect(new URL(page.url).pathname).toMatch(/^\/admin\/sign-ins\//);
  expect(page.body).toContain('The trial failed');
  expect(await readConnectedApps()).not.toContain('second');
});

test('the callback of a trial that is opened again after ten others still leads to its record', async () => {
  for (const [button, result] of [
    ['Deny', 'The trial failed'],
    ['Allow', 'The trial worked'],
  ] as const) {
    const page = await tryApp('second', button);
    expect(page.body).toContain(result);
    const callback = page.visited.find((url) => url.includes('/oauth/callback/')) ?? '';
    expect((await agent.get(callback)).url).toBe(page.url);
    for (let n = 0; n < 11; n += 1) {
      const connection = await agent.get(`${site.url}/connections/second`);
      if (connection.body.includes('Disconnect')) await agent.submit(connection, {}, { button: 'Disconnect' });
      await tryApp('second', 'Deny');
    }
    expect((await agent.get(callback)).url).toBe(page.url);
  }
});

const save = async (fields: Record<string, string>) =>
  expect((await agent.submit(await open('connected-apps/second/settings'), fields, { button: 'Save' })).body).toContain(
    'Saved.',
  );

test('a trial of a user who may not sign in is refused at that step, and connects nothing', async () => {
  await save({ signIn: 'claim', signInClaim: 'groups', signInValues: 'a-group-without-users' });
  const page = await tryApp('second');
  expect(page.body).toContain('The trial failed');
  expect(page.body).toContain('User may not sign in<span class="visually-hidden">: failed');
  expect(page.body).toContain('the claim “groups” has none of the values of the rule');
  expect(await readConnectedApps()).not.toContain('second');
  await save({ signIn: 'everyone' });
});

test('a trial that cannot begin ends at its record', async () => {
  const path = '/.well-known/openid-configuration';
  site.sandbox.faults.set({ listener: 'identity-provider', path, kind: 'response', status: 500, body: {} });
  // The metadata of a changed app is read again.
  await save({ name: 'Renamed' });
  const page = await agent.submit(await open('connected-apps/second/check'), {}, { button: 'Try a sign-in' });
  site.sandbox.faults.clear();
  expect(new URL(page.url).pathname).toMatch(/^\/admin\/sign-ins\//);
  expect(page.body).toContain('The trial failed');
});

test('a trial is offered to administrators only, and not for disabled or unknown apps', async () => {
  expect((await open('connected-apps/off/check')).body).not.toContain('Try a sign-in');
  const csrf = new URLSearchParams({ _csrf: String((await readSession()).csrfToken) });
  const unknown = await agent.request(`${site.url}/admin/connected-apps/nobody/try`, { method: 'POST', body: csrf });
  expect([unknown.status, unknown.body]).toEqual([
    404,
    expect.stringContaining('There is no connected app with this id.'),
  ]);
  const user = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  const { csrfToken } = (await getJson(user.agent, `${site.url}/session`)).json;
  const body = new URLSearchParams({ _csrf: String(csrfToken) });
  const refused = await user.agent.request(`${site.url}/admin/connected-apps/second/try`, { method: 'POST', body });
  expect(refused.status).toBe(403);
});
