/** Reconnecting by the unchanged form requests the same scopes, even if the provider grants them under other names. */
import { afterEach, describe, expect, test } from 'vitest';
import { status } from '../../support/broken-responses.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import type { Mode } from '../../support/hostile-modes.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { until } from '../../support/until.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { connectionsOf, openStorageOf, sessionOf } from './storage-access.ts';

let site: HostileSite;
afterEach(() => site.close());

type TokenResponseBody = Record<string, unknown>;
const scopesIn = ({ scope }: TokenResponseBody) => String(scope).split(' ');

/** Makes the provider send token responses that are changed in this way, with access tokens for a minute. */
const setTokenResponses = (changeResponse: (body: TokenResponseBody) => TokenResponseBody, otherModes: Mode = {}) =>
  site.provider.setModes({
    ...otherModes,
    tokenResponse: (body) => changeResponse({ ...body, expires_in: 60 }) as typeof body,
  });
const REFUSED: Mode = { responses: { refresh: status(400, { error: 'invalid_grant' }) } };

/** Signs a user in with one app, and connects another app, which has these scopes. */
async function signInAndConnect(
  scopes: string[],
  changeResponse: (body: TokenResponseBody) => TokenResponseBody,
  appChanges: (issuer: string) => Record<string, unknown> = () => ({}),
  otherModes: Mode = {},
) {
  site = await startHostileSite({
    apps: (provider, url) => [
      provider.app(url, { scopes: ['openid', 'profile'], apiBaseUrl: undefined }),
      provider.app(url, { id: 'files', scopes, signIn: undefined, ...appChanges(provider.issuer) }),
    ],
  });
  const { agent } = await attempt(site);
  setTokenResponses(changeResponse, otherModes);
  await reconnect(agent, 'Connect');
  expect(await healthOf(agent)).toBe('active');
  site.provider.hits.length = 0;
  return agent;
}

async function reconnect(agent: UserAgent, button = 'Reconnect with these permissions') {
  const page = await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button });
  expect(page.status).toBe(200);
}

const lastRequest = () => {
  const [hit] = site.provider.hitsOf('authorize').slice(-1);
  return new URL(hit?.url ?? '', site.url).searchParams;
};
const connectionOf = async (agent: UserAgent) => (await connectionsOf(site, agent)).find(({ app }) => app === 'files');
const healthOf = async (agent: UserAgent) => (await connectionOf(agent))?.health;
const getThread = (agent: UserAgent) => getJson(agent, `${site.url}/threads/current?app=files`);

test('reconnecting stores a refresh token even if the provider leaves offline_access out of its responses', async () => {
  const scopes = ['openid', 'profile', 'mail.read', 'offline_access'];
  const withoutOffline = ({ refresh_token, ...body }: TokenResponseBody): TokenResponseBody => {
    const granted = scopesIn(body);
    const scope = granted.filter((name) => name !== 'offline_access').join(' ');
    return granted.includes('offline_access') ? { ...body, scope, refresh_token } : { ...body, scope };
  };
  const agent = await signInAndConnect(scopes, withoutOffline);
  setTokenResponses(withoutOffline, REFUSED);
  advanceClock(61);

  expect((await getThread(agent)).status).toBe(403);

  setTokenResponses(withoutOffline);
  const page = await agent.get(`${site.url}/connections/files`);
  expect(page.body).not.toContain('status-idle">New');

  await reconnect(agent);
  expect(lastRequest().get('scope')).toBe(scopes.join(' '));
  expect(await healthOf(agent)).toBe('active');

  advanceClock(61);
  expect((await getThread(agent)).status).toBe(200);
});

test('reconnecting loses no scope if the provider gives scopes other names, and the start page requests the same ones', async () => {
  const scopes = ['openid', 'email', 'profile', 'calendar'];
  const withOtherNames = (body: TokenResponseBody) => ({
    ...body,
    scope: scopesIn(body)
      .map((scope) => (scope === 'openid' ? scope : `https://provider.test/auth/${scope}`))
      .join(' '),
  });
  const agent = await signInAndConnect(scopes, withOtherNames);
  await reconnect(agent);

  expect(lastRequest().get('scope')).toBe(scopes.join(' '));

  const page = await agent.get(`${site.url}/connections/files`);
  const form = page.forms.find(({ buttons }) =>
    buttons.some(({ text }) => text === 'Reconnect with these permissions'),
  );
  const fieldsWithoutCalendar = form?.fields.filter(([, value]) => value !== 'calendar');
  await agent.request(`${site.url}/connections/files`, {
    method: 'POST',
    body: new URLSearchParams(fieldsWithoutCalendar),
  });

  expect(lastRequest().get('scope')).toBe('openid email profile');

  setTokenResponses(withOtherNames, REFUSED);
  advanceClock(61);

  expect((await getThread(agent)).status).toBe(403);

  setTokenResponses(withOtherNames);
  await agent.submit(await agent.get(`${site.url}/`), {}, { button: 'Reconnect Elsewhere (files)' });
  expect(lastRequest().get('scope')).toBe('openid email profile');
  expect(await healthOf(agent)).toBe('active');
});

test('reconnecting by the unchanged form works if the provider joins its scopes with commas', async () => {
  const withCommas = (body: TokenResponseBody) => ({ ...body, scope: scopesIn(body).join(',') });
  const agent = await signInAndConnect(['repo', 'gist'], withCommas);
  await reconnect(agent);

  expect(lastRequest().get('scope')).toBe('repo gist');
});

test('an imported connection without requested scopes can reconnect', async () => {
  const agent = await signInAndConnect(['repo', 'gist'], (body) => ({ ...body, scope: 'repo,gist' }));
  const storage = await openStorageOf(site);
  const { userId } = await sessionOf(site, agent);
  await storage.changeGrant(userId, () => ({ requestedScopes: undefined }), 'files');
  await storage.close();
  await reconnect(agent);

  expect(lastRequest().get('scope')).toBe('repo gist');
});

test('the connection is unverified while the platform refuses the token and the provider is unavailable', async () => {
  const agent = await signInAndConnect(['read', 'offline_access'], ({ expires_in: _, ...body }) => body);
  const storage = await openStorageOf(site);
  const { userId } = await sessionOf(site, agent);
  const { accessToken } = await storage.readGrant(userId, 'files');
  await storage.changeGrant(userId, () => ({ accessToken: 'no-longer-known' }), 'files');
  site.provider.setModes('refresh-status-503');
  advanceClock(5);

  const response = await getThread(agent);
  expect([response.status, response.json.connectUrl]).toEqual([503, `${site.url}/connections/files`]);
  expect(await connectionOf(agent)).toMatchObject({ health: 'unverified', cause: 'provider_unavailable' });

  await storage.changeGrant(userId, () => ({ accessToken }), 'files');
  expect((await getThread(agent)).status).toBe(200);

  await until(async () => (await healthOf(agent)) === 'active');
  await storage.close();
});

describe('an account that no ID token names', () => {
  const withoutRefreshToken = ({ refresh_token: _, ...body }: TokenResponseBody) => body;

  /** Connects a user with a refresh token; later consents return none. */
  async function connectWithAccount(account?: (issuer: string) => unknown, userinfo?: Mode['userinfo']) {
    const otherModes = userinfo ? { userinfo } : {};
    const changes = (issuer: string) => ({ account: account?.(issuer) });
    const agent = await signInAndConnect(['read'], (body) => body, changes, otherModes);
    const storage = await openStorageOf(site);
    const { userId } = await sessionOf(site, agent);
    const readGrant = () => storage.readGrant(userId, 'files');
    const originalGrant = await readGrant();
    setTokenResponses(withoutRefreshToken, otherModes);
    return { agent, originalGrant, readGrant, close: storage.close };
  }

  test.each<[string, (issuer: string) => unknown, Mode['userinfo'], string]>([
    ['userinfo', () => ({ field: 'sub' }), undefined, 'user-1'],
    ['a whole number', () => ({ field: 'data.ids.0' }), () => ({ data: { ids: [583_231] } }), '583231'],
    ['a URL of the API', (issuer) => ({ field: 'thread.id', url: `${issuer}/api/1/threads/current` }), undefined, 't1'],
  ])('keeps the refresh token without a new consent if %s names it', async (_source, account, userinfo, id) => {
    const { agent, originalGrant, readGrant, close } = await connectWithAccount(account, userinfo);
    expect(originalGrant.account).toEqual({ accountId: id });

    await reconnect(agent, 'Reconnect');
    expect(lastRequest().get('prompt')).toBeNull();
    expect(await readGrant()).toMatchObject({ refreshToken: originalGrant.refreshToken, account: { accountId: id } });
    expect((await readGrant()).accessToken).not.toBe(originalGrant.accessToken);

    advanceClock(61);
    expect((await getThread(agent)).status).toBe(200);
    expect((await agent.get(`${site.url}/connections/files`)).body).toContain(`Connected as <bdi>${id}</bdi>`);
    expect(site.provider.hitsOf('revocation')).toEqual([]);

    await close();
  });

  test('keeps nothing of another account, whose grant is revoked', async () => {
    const { agent, originalGrant, readGrant, close } = await connectWithAccount(() => ({ field: 'sub' }));
    site.provider.signInAs({ sub: 'user-2' });
    await reconnect(agent, 'Reconnect');

    expect((await readGrant()).account).toEqual({ accountId: 'user-2' });
    expect((await readGrant()).refreshToken).toBeUndefined();
    expect(site.provider.hitsOf('revocation').map(({ body }) => new URLSearchParams(body).get('token'))).toEqual([
      originalGrant.refreshToken,
    ]);

    await close();
  });

  test('requires a new refresh token if it is unknown, since the stored one may belong to another account', async () => {
    const { agent, readGrant, close } = await connectWithAccount();
    site.provider.signInAs({ sub: 'user-2' });
    await reconnect(agent, 'Reconnect');

    expect(lastRequest().get('prompt')).toBe('consent');
    expect((await readGrant()).refreshToken).toBeUndefined();
    expect(await healthOf(agent)).toBe('expiring');

    await close();
  });

  const USERINFO_RESPONSES: [string, Mode][] = [
    ['a refusal', { responses: { userinfo: status(403, { error: 'insufficient_scope' }) } }],
    [
      'a challenge',
      { responses: { userinfo: status(401, '', { 'www-authenticate': 'Bearer error="invalid_token"' }) } },
    ],
    ['no JSON', { responses: { userinfo: status(200, '<h1>Sign in</h1>') } }],
    ['another member', { userinfo: () => ({ id: 'user-1' }) }],
    ['an inherited member', { userinfo: () => ({}) }],
    ['an object', { userinfo: () => ({ sub: { id: 1 } }) }],
    ['an empty text', { userinfo: () => ({ sub: ' ' }) }],
    ['a text that is too long', { userinfo: () => ({ sub: 'x'.repeat(256) }) }],
    ['a number that is rounded', { userinfo: () => ({ sub: 2 ** 53 }) }],
    ['a redirect', { responses: { userinfo: status(302, '', { location: '/elsewhere' }) } }],
    ['a failure of the provider', { responses: { userinfo: status(500, '') } }],
  ];
  test.each(USERINFO_RESPONSES)('leaves the connection unchanged if its request gets %s', async (description, mode) => {
    const { agent, originalGrant, readGrant, close } = await connectWithAccount(() => ({ field: 'sub' }));
    setTokenResponses((body) => body, mode);

    const page = await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Reconnect' });
    expect(page.status).toBe(description.startsWith('a failure') ? 503 : 502);
    if (page.status === 502) expect(page.body).toContain('We could not find out which account you chose');
    expect(await readGrant()).toEqual(originalGrant);

    await close();
  });

  test('is needed to store a first connection; without it, the new tokens are revoked', async () => {
    site = await startHostileSite({
      apps: (provider, url) => [
        provider.app(url, { scopes: ['openid', 'profile'], apiBaseUrl: undefined }),
        provider.app(url, { id: 'files', scopes: ['read'], signIn: undefined, account: { field: 'id' } }),
      ],
    });
    const { agent } = await attempt(site);
    let issuedRefreshToken = '';
    setTokenResponses((body) => {
      issuedRefreshToken = String(body.refresh_token);
      return body;
    });

    const page = await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Connect' });
    expect(page.status).toBe(502);

    const revokedTokens = () =>
      site.provider.hitsOf('revocation').map(({ body }) => new URLSearchParams(body).get('token'));
    await until(() => revokedTokens().length > 0);
    expect(revokedTokens()).toEqual([issuedRefreshToken]);
  });
});
