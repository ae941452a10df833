/** Users choose fewer scopes and add them again; a sign-in adds none. Users delete everything stored about them. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

const HTML = { headers: { accept: 'text/html' } };
const scopesOf = async (agent: UserAgent) => {
  const { json } = await getJson(agent, `${site.url}/connections`);
  const [connection] = json.items as { scopes: string[] }[];
  return connection?.scopes ?? [];
};

async function chooseScopes(agent: UserAgent, scopes: string[]): Promise<void> {
  const csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
  const form = [['_csrf', csrf], ['choose', '1'], ...scopes.map((scope) => ['scope', scope])];
  const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' };
  let page = await agent.request(`${site.url}/connections/platform`, {
    method: 'POST',
    headers,
    body: new URLSearchParams(form).toString(),
  });
  const hasConsentForm = () => page.forms.some(({ buttons }) => buttons.some(({ text }) => text === 'Allow'));
  while (hasConsentForm()) page = await agent.submit(page, {}, { button: 'Allow' });
  expect(page.status).toBe(200);
}

test('R4: a choice of fewer scopes stays after signing in again, and a scope added later is shown as new', async () => {
  const { agent } = await signIn(site);
  expect(await scopesOf(agent)).toContain('platform_read_only');

  await chooseScopes(agent, ['profile', 'email', 'offline_access']);
  expect(await scopesOf(agent)).not.toContain('platform_read_only');

  const { agent: agentOfNextSignIn } = await signIn(site);
  expect(await scopesOf(agentOfNextSignIn)).not.toContain('platform_read_only');

  const { json } = await getJson(agentOfNextSignIn, `${site.url}/connections`);
  expect(json.items).toMatchObject([{ health: 'active', missingScopes: ['platform_read_only'] }]);

  const page = await agentOfNextSignIn.get(`${site.url}/connections/platform`, HTML);
  expect(page.body).not.toContain('needs more permissions');
  expect(page.body).toMatch(/value="platform_read_only">\s*<span>[^<]*<span class="status status-idle">New/);
  expect(page.body).toMatch(/value="email" checked/);

  const pageWithScopes = await agentOfNextSignIn.get(
    `${site.url}/connections/platform?scope=platform_read_only+unknown`,
    HTML,
  );
  const addForm = pageWithScopes.forms.find(({ buttons }) => buttons[0]?.text.startsWith('Add permissions'));
  expect(addForm?.fields).toEqual(
    expect.arrayContaining([
      ['scope', 'platform_read_only'],
      ['scope', 'offline_access'],
    ]),
  );
  expect(pageWithScopes.body).toContain('needs more permissions');
  expect(pageWithScopes.body).not.toContain('unknown');

  await chooseScopes(agentOfNextSignIn, ['profile', 'email', 'offline_access', 'platform_read_only']);
  expect(await scopesOf(agentOfNextSignIn)).toContain('platform_read_only');
});

const healthOf = async (agent: UserAgent) => {
  const { json } = await getJson(agent, `${site.url}/connections`);
  return (json.items as { health: string }[])[0]?.health;
};

test('R4: adding a scope stores a refresh token for all scopes', async () => {
  const { agent } = await signIn(site);
  await chooseScopes(agent, ['profile', 'email', 'offline_access']);

  expect(await healthOf(agent)).toBe('active');

  await chooseScopes(agent, ['profile', 'email', 'offline_access', 'platform_read_only']);
  expect(await scopesOf(agent)).toEqual(expect.arrayContaining(['offline_access', 'platform_read_only']));
  expect(await healthOf(agent)).toBe('active');

  advanceClock(600);
  const { status } = await getJson(agent, `${site.url}/threads/current`);
  advanceClock(-600);

  expect(status).toBe(200);
});

test('R4: dropping offline_access drops the refresh token', async () => {
  const { agent } = await signIn(site);
  await chooseScopes(agent, ['profile', 'email', 'platform_read_only']);

  expect(await scopesOf(agent)).not.toContain('offline_access');
  expect(await healthOf(agent)).toBe('expiring');
});

test('R30: signing in again without a new consent keeps the refresh token', async () => {
  const { agent } = await signIn(site);
  await chooseScopes(agent, ['profile', 'email', 'offline_access', 'platform_read_only']);
  await agent.get(`${site.url}/sign-in?app=platform`);

  expect(await scopesOf(agent)).toContain('offline_access');
  expect(await healthOf(agent)).toBe('active');

  advanceClock(600);
  const { status } = await getJson(agent, `${site.url}/threads/current`);
  advanceClock(-600);

  expect(status).toBe(200);
});

test('R4: an unregistered scope is refused, and choosing none leaves the scopes of the sign-in', async () => {
  const { agent } = await signIn(site);
  const csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
  const postChoice = async (body: string) => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    return agent.request(`${site.url}/connections/platform`, { method: 'POST', headers, body, follow: false });
  };

  const unregisteredChoice = await postChoice(`_csrf=${csrf}&choose=1&scope=profile&scope=admin`);
  expect(unregisteredChoice.status).toBe(400);
  expect(unregisteredChoice.body).toContain('Choose from the scopes');

  const emptyChoice = await postChoice(`_csrf=${csrf}&choose=1`);
  expect(new URL(emptyChoice.headers.get('location') ?? '').searchParams.get('scope')).toBe('openid');

  // A page without a choice sends no scope, or an empty one, which requests all.
  for (const scopeField of ['', '&scope=', '&scope=%20']) {
    const location = new URL((await postChoice(`_csrf=${csrf}${scopeField}`)).headers.get('location') ?? '');
    expect(location.searchParams.get('scope')).toContain('platform_read_only');
  }
});

test('R4: if the sign-in needs no scope, at least one must be chosen', async () => {
  const siteWithoutSignInScopes = await startSite({
    apps: (parts) => [
      sandboxApp(parts, 'platform'),
      sandboxApp(parts, 'second', { scopes: ['profile', 'offline_access'], signIn: undefined }),
    ],
  });
  const { agent } = await signIn(siteWithoutSignInScopes);
  const csrf = String((await getJson(agent, `${siteWithoutSignInScopes.url}/session`)).json.csrfToken);
  const postChoice = async (body: string) => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    return agent.request(`${siteWithoutSignInScopes.url}/connections/second`, {
      method: 'POST',
      headers,
      body,
      follow: false,
    });
  };

  const emptyChoice = await postChoice(`_csrf=${csrf}&choose=1`);
  expect(emptyChoice.status).toBe(400);
  expect(emptyChoice.body).toContain('Choose something that the app may do');

  const authorizationUrl = new URL(
    (await postChoice(`_csrf=${csrf}&choose=1&scope=profile`)).headers.get('location') ?? '',
  );
  expect(authorizationUrl.searchParams.get('scope')).toBe('profile');

  await siteWithoutSignInScopes.close();
});

test('R52: everything stored about a user is deleted after a confirmation, with connections revoked first', async () => {
  const { agent } = await signIn(site, 'second@example.test');
  const { agent: secondSession } = await signIn(site, 'second@example.test');

  const confirmation = await agent.get(`${site.url}/account/delete`, HTML);
  expect(confirmation.body).toContain('This cannot be undone');

  const revocationsBefore = site.sandbox.requests.count('POST /revoke');
  const deletedPage = await agent.submit(confirmation, {}, { button: 'Delete everything' });
  expect(deletedPage.body).toContain('the provider has confirmed that our access is withdrawn');
  expect(site.sandbox.requests.count('POST /revoke')).toBe(revocationsBefore + 1);
  for (const session of [agent, secondSession]) {
    expect((await getJson(session, `${site.url}/session`)).json).toEqual({ signedIn: false });
  }

  const { agent: admin } = await signIn(site, 'admin@example.test');
  const { json } = await getJson(admin, `${site.url}/admin/api/users?q=second@`);
  expect(json.items).toEqual([]);
});

test('R52: the JSON response has the provider’s response for each connection', async () => {
  const { agent } = await signIn(site, 'second@example.test');
  const body = new URLSearchParams({ _csrf: String((await getJson(agent, `${site.url}/session`)).json.csrfToken) });
  const options = { method: 'POST', headers: { accept: 'application/json' }, body };

  const page = await agent.request(`${site.url}/account/delete`, options);
  expect(JSON.parse(page.body)).toEqual({
    connections: [
      { id: expect.stringMatching(/^cn/), app: 'platform', revocation: 'revoked', providerResponse: { status: 200 } },
    ],
  });
  expect((await getJson(agent, `${site.url}/session`)).json).toEqual({ signedIn: false });
});
