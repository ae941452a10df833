/** Reconnecting by the unchanged form requests the same scopes, even if the provider grants them under other names. */
import { afterEach, describe, expect, test } from 'vitest';
import { status } from '../../support/broken-responses.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import type { Mode } from '../../support/hostile-modes.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { until } from '../../support/until.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { openStorageOf, sessionOf } from './storage-access.ts';

let site: HostileSite;
afterEach(() => site.close());

type Tokens = Record<string, unknown>;
const scopesIn = ({ scope }: Tokens) => String(scope).split(' ');

/** From now on, the provider responds in this way, with access tokens for a minute. */
const behave = (tokens: (body: Tokens) => Tokens, more: Mode = {}) =>
  site.provider.setModes({ ...more, tokenResponse: (body) => tokens({ ...body, expires_in: 60 }) as typeof body });
const REFUSED: Mode = { responses: { refresh: status(400, { error: 'invalid_grant' }) } };

/** A user who signs in with one app and is connected to another, which has these scopes. */
async function connected(
  scopes: string[],
  tokens: (body: Tokens) => Tokens,
  changes: (issuer: string) => Record<string, unknown> = () => ({}),
  more: Mode = {},
) {
  site = await startHostileSite({
    apps: (provider, url) => [
      provider.app(url, { scopes: ['openid', 'profile'], apiBaseUrl: undefined }),
      provider.app(url, { id: 'files', scopes, signIn: undefined, ...changes(provider.issuer) }),
    ],
  });
  const { agent } = await attempt(site);
  behave(tokens, more);
  await reconnect(agent, 'Connect');
  expect(await healthOf(agent)).toBe('active');
  site.provider.hits.length = 0;
  return agent;
}

async function reconnect(agent: UserAgent, button = 'Reconnect with these') {
  const page = await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button });
  expect(page.status).toBe(200);
}

const requested = () => {
  const [hit] = site.provider.hitsOf('authorize').slice(-1);
  return new URL(hit?.url ?? '', site.url).searchParams;
};
const connectionOf = async (agent: UserAgent) =>
  (await sessionOf(site, agent)).connections.find(({ app }) => app === 'files');
const healthOf = async (agent: UserAgent) => (await connectionOf(agent))?.health;
const thread = (agent: UserAgent) => getJson(agent, `${site.url}/threads/current?app=files`);

test('a provider that leaves offline_access out of its responses: reconnecting after a refusal stores a refresh token', async () => {
  const scopes = ['openid', 'profile', 'mail.read', 'offline_access'];
  const withoutOffline = ({ refresh_token, ...body }: Tokens): Tokens => {
    const granted = scopesIn(body);
    const scope = granted.filter((one) => one !== 'offline_access').join(' ');
    return { ...body, scope, ...(granted.includes('offline_access') ? { refresh_token } : {}) };
  };
  const agent = await connected(scopes, withoutOffline);
  behave(withoutOffline, REFUSED);
  advanceClock(61);
  expect((await thread(agent)).status).toBe(403);
  behave(withoutOffline);
  const page = await agent.get(`${site.url}/connections/files`);
  expect(page.body).not.toContain('status-idle">New');
  await reconnect(agent);
  expect(requested().get('scope')).toBe(scopes.join(' '));
  expect(await healthOf(agent)).toBe('active');
  advanceClock(61);
  expect((await thread(agent)).status).toBe(200);
});

test('a provider that gives scopes other names: no scope is lost, and the button of the start page requests the same', async () => {
  const scopes = ['openid', 'email', 'profile', 'calendar'];
  const renamed = (body: Tokens) => ({
    ...body,
    scope: scopesIn(body)
      .map((scope) => (scope === 'openid' ? scope : `https://provider.test/auth/${scope}`))
      .join(' '),
  });
  const agent = await connected(scopes, renamed);
  await reconnect(agent);
  expect(requested().get('scope')).toBe(scopes.join(' '));
  const page = await agent.get(`${site.url}/connections/files`);
  const form = page.forms.find(({ buttons }) => buttons.some(({ text }) => text === 'Reconnect with these'));
  const fewer = form?.fields.filter(([, value]) => value !== 'calendar');
  await agent.request(`${site.url}/connections/files`, { method: 'POST', body: new URLSearchParams(fewer) });
  expect(requested().get('scope')).toBe('openid email profile');
  behave(renamed, REFUSED);
  advanceClock(61);
  expect((await thread(agent)).status).toBe(403);
  behave(renamed);
  await agent.submit(await agent.get(`${site.url}/`), {}, { button: 'Reconnect Elsewhere' });
  expect(requested().get('scope')).toBe('openid email profile');
  expect(await healthOf(agent)).toBe('active');
});

test('a provider with ambiguous scope names: the unchanged form is never refused', async () => {
  const joined = (body: Tokens) => ({ ...body, scope: scopesIn(body).join(',') });
  const agent = await connected(['repo', 'gist'], joined);
  await reconnect(agent);
  expect(requested().get('scope')).toBe('repo gist');
});

test('an imported connection without requested scopes can reconnect', async () => {
  const agent = await connected(['repo', 'gist'], (body) => ({ ...body, scope: 'repo,gist' }));
  const storage = await openStorageOf(site);
  const { userId } = await sessionOf(site, agent);
  await storage.changeGrant(userId, () => ({ requestedScopes: undefined }), 'files');
  await storage.close();
  await reconnect(agent);
  expect(requested().get('scope')).toBe('repo gist');
});

test('the connection is unverified while the platform refuses the token and the provider is unavailable', async () => {
  const agent = await connected(['read', 'offline_access'], ({ expires_in: _, ...body }) => body);
  const storage = await openStorageOf(site);
  const { userId } = await sessionOf(site, agent);
  const { accessToken } = await storage.readGrant(userId, 'files');
  await storage.changeGrant(userId, () => ({ accessToken: 'no-longer-known' }), 'files');
  site.provider.setModes('refresh-status-503');
  advanceClock(5);
  const { status: code, json } = await thread(agent);
  expect([code, json.connectUrl]).toEqual([503, `${site.url}/connections/files`]);
  expect(await connectionOf(agent)).toMatchObject({ health: 'unverified', cause: 'provider_unavailable' });
  await storage.changeGrant(userId, () => ({ accessToken }), 'files');
  expect((await thread(agent)).status).toBe(200);
  await until(async () => (await healthOf(agent)) === 'active');
  await storage.close();
});

describe('an account that no ID token names', () => {
  const withoutRefreshToken = ({ refresh_token: _, ...body }: Tokens) => body;

  /** Connected once with a refresh token; later consents return none. */
  async function connectedAs(account?: (issuer: string) => unknown, userinfo?: Mode['userinfo']) {
    const more = userinfo ? { userinfo } : {};
    const changes = (issuer: string) => ({ account: account?.(issuer) });
    const agent = await connected(['read'], (body) => body, changes, more);
    const storage = await openStorageOf(site);
    const { userId } = await sessionOf(site, agent);
    const read = () => storage.readGrant(userId, 'files');
    const before = await read();
    behave(withoutRefreshToken, more);
    return { agent, before, read, close: storage.close };
  }

  test.each<[string, (issuer: string) => unknown, Mode['userinfo'], string]>([
    ['userinfo', () => ({ field: 'sub' }), undefined, 'user-1'],
    ['a whole number', () => ({ field: 'data.ids.0' }), () => ({ data: { ids: [583_231] } }), '583231'],
    ['a URL of the API', (issuer) => ({ field: 'thread.id', url: `${issuer}/api/1/threads/current` }), undefined, 't1'],
  ])('%s names it: the refresh token is kept, and no new consent is required', async (_what, account, userinfo, id) => {
    const { agent, before, read, close } = await connectedAs(account, userinfo);
    expect(before.account).toEqual({ accountId: id });
    await reconnect(agent, 'Reconnect');
    expect(requested().get('prompt')).toBeNull();
    expect(await read()).toMatchObject({ refreshToken: before.refreshToken, account: { accountId: id } });
    expect((await read()).accessToken).not.toBe(before.accessToken);
    advanceClock(61);
    expect((await thread(agent)).status).toBe(200);
    expect((await agent.get(`${site.url}/connections/files`)).body).toContain(`Connected as <bdi>${id}</bdi>`);
    expect(site.provider.hitsOf('revocation')).toEqual([]);
    await close();
  });

  test('another account keeps nothing of the earlier one, whose grant is revoked', async () => {
    const { agent, before, read, close } = await connectedAs(() => ({ field: 'sub' }));
    site.provider.signInAs({ sub: 'user-2' });
    await reconnect(agent, 'Reconnect');
    expect((await read()).account).toEqual({ accountId: 'user-2' });
    expect((await read()).refreshToken).toBeUndefined();
    expect(site.provider.hitsOf('revocation').map(({ body }) => new URLSearchParams(body).get('token'))).toEqual([
      before.refreshToken,
    ]);
    await close();
  });

  test('an unknown account requires a new refresh token, since the stored one may belong to another account', async () => {
    const { agent, read, close } = await connectedAs();
    site.provider.signInAs({ sub: 'user-2' });
    await reconnect(agent, 'Reconnect');
    expect(requested().get('prompt')).toBe('consent');
    expect((await read()).refreshToken).toBeUndefined();
    expect(await healthOf(agent)).toBe('expiring');
    await close();
  });

  const ANSWERS: [string, Mode][] = [
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
  test.each(ANSWERS)('%s: nothing is connected, and the connection does not change', async (what, mode) => {
    const { agent, before, read, close } = await connectedAs(() => ({ field: 'sub' }));
    behave((body) => body, mode);
    const page = await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Reconnect' });
    expect(page.status).toBe(what.startsWith('a failure') ? 503 : 502);
    if (page.status === 502) expect(page.body).toContain('We could not find out which account you chose');
    expect(await read()).toEqual(before);
    await close();
  });

  test('a first connection is not stored either, and its tokens are revoked', async () => {
    site = await startHostileSite({
      apps: (provider, url) => [
        provider.app(url, { scopes: ['openid', 'profile'], apiBaseUrl: undefined }),
        provider.app(url, { id: 'files', scopes: ['read'], signIn: undefined, account: { field: 'id' } }),
      ],
    });
    const { agent } = await attempt(site);
    let issued = '';
    behave((body) => {
      issued = String(body.refresh_token);
      return body;
    });
    const page = await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Connect' });
    expect(page.status).toBe(502);
    const revoked = () => site.provider.hitsOf('revocation').map(({ body }) => new URLSearchParams(body).get('token'));
    await until(() => revoked().length > 0);
    expect(revoked()).toEqual([issued]);
  });
});
