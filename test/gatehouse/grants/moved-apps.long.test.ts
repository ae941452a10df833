/**
 * R116: an app that moves to another provider sends it no tokens, and has its connections again when it is changed
 * back.
 */
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { until } from '../../support/until.ts';
import { type Administrator, createAdministrator, exchange, relayThread } from '../relay/service.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { disconnect, openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

type App = Record<string, unknown>;

let home: HostileProvider;
let stranger: HostileProvider;
let site: HostileSite;
let agent: UserAgent;
let userId: string;
let storage: StorageAccess;
let admin: Administrator;
let relayToken: string;
let inFile: string;

const filesOf = (provider: HostileProvider, changes: App = {}): App =>
  provider.app(site.url, { id: 'files', name: 'Files', signIn: undefined, ...changes });

/** Users sign out at the other provider, which gets no other token. */
const signedOutElsewhere = (endpoints: App = {}, changes: App = {}): App =>
  filesOf(home, {
    endpoints: { ...home.endpointSettings(), endSession: `${stranger.issuer}/end_session`, ...endpoints },
    ...changes,
  });

/** Writes these apps into the file, in addition to the sign-in app, and restarts. */
async function restartWith(...apps: App[]): Promise<void> {
  const text = JSON.stringify([home.app(site.url), ...apps]);
  if (text === inFile) return;
  inFile = text;
  writeFileSync(site.env.CONNECTED_APPS_FILE ?? '', text);
  await site.restart();
}

/** Asserts that the other provider received no token of the user. */
function expectNothingAt(provider: HostileProvider, tokens: readonly string[]): void {
  const received = JSON.stringify(provider.hits);
  for (const token of tokens) expect(received).not.toContain(token);
}

async function tokensOfUser(): Promise<string[]> {
  const { accessToken, refreshToken = '' } = await storage.readGrant(userId, 'files');
  return [accessToken, refreshToken];
}

const connection = async () => (await sessionOf(site, agent)).connections.find(({ app }) => app === 'files');

async function connectAnew(): Promise<void> {
  await disconnect(site, agent, 'files').catch(() => undefined);
  await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Connect' });
  expect(await connection()).toMatchObject({ health: 'active' });
}

const expired = () => ({ obtainedAt: Date.now() - 3_600_000, expiresAt: Date.now() - 1_000 });

/** Calls every route that could send a token of the app. */
async function useEverything(): Promise<unknown[]> {
  const subject = { subject_token: userId, subject_token_type: 'urn:gatehouse:token-type:user' };
  const responses = [
    await getJson(agent, `${site.url}/threads/current?app=files`),
    await relayThread(site, relayToken, { 'gatehouse-user': userId }, '?app=files'),
    await exchange(site, relayToken, { ...subject, audience: 'files' }),
    await exchange(site, relayToken, { ...subject, audience: 'files', scope: 'profile' }),
  ];
  return responses.map(({ status }) => status);
}

beforeAll(async () => {
  [home, stranger] = await Promise.all([startHostileProvider(), startHostileProvider()]);
  site = await startHostileSite({
    provider: home,
    apps: (provider, url) => [provider.app(url), provider.app(url, { id: 'files', name: 'Files', signIn: undefined })],
    // Idle connections are refreshed within a minute: these refreshes must not reach the other provider either.
    env: { CONNECTION_CHECK_SECONDS: '60' },
  });
  agent = createUserAgent();
  home.signInAs({ sub: 'ann', email: 'ann@example.test' });
  expect((await attempt(site, { agent })).signedIn).toBe(true);
  ({ userId } = await sessionOf(site, agent));
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  relayToken = (await admin.createRelayToken({ apps: ['files'], assertUser: true })).token;
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
  await Promise.all([home?.close(), stranger?.close()]);
});
beforeEach(async () => {
  await restartWith(filesOf(home));
  home.reset();
  if ((await connection())?.health !== 'active') await connectAnew();
  stranger.reset();
});

describe('R116 a file that changes', () => {
  test.each<[string, () => App]>([
    ['the issuer', () => filesOf(stranger)],
    ['the client', () => filesOf(home, { clientId: 'another-client' })],
    ['the API', () => filesOf(home, { apiBaseUrl: stranger.issuer })],
    ['an endpoint', () => filesOf(home, { endpoints: { revocation: `${stranger.issuer}/revoke` } })],
    ['the token endpoint', () => filesOf(home, { endpoints: stranger.endpointSettings() })],
    ['the place of the metadata', () => filesOf(home, { discoveryUrl: `${stranger.issuer}/metadata` })],
  ])(
    '%s sets the connection aside and sends no token there, and changing the app back restores it',
    async (_what, moved) => {
      const tokens = await tokensOfUser();
      await restartWith(moved());
      expect(await connection()).toMatchObject({ health: 'reconnect_needed', cause: 'registration_changed' });
      expect(await useEverything()).not.toContain(200);
      expectNothingAt(stranger, tokens);
      // The health was derived; nothing was stored.
      expect((await storage.readGrant(userId, 'files')).failure).toBeUndefined();
      await restartWith(filesOf(home));
      expect(await connection()).toMatchObject({ health: 'active', cause: null });
      expect((await getJson(agent, `${site.url}/threads/current?app=files`)).status).toBe(200);
    },
  );

  test.each<[string, () => App, object]>([
    ['its refresh token', () => signedOutElsewhere({ token: `${stranger.issuer}/token` }), expired],
    ['its access token', () => signedOutElsewhere({}, { apiBaseUrl: stranger.issuer }), () => ({})],
    ['its access token by userinfo', () => signedOutElsewhere({ userinfo: `${stranger.issuer}/userinfo` }), () => ({})],
  ])('sends nothing else to the host where users sign out: %s', async (_what, moved, changeOfGrant) => {
    await restartWith(signedOutElsewhere());
    await connectAnew();
    const tokens = await tokensOfUser();
    await storage.changeGrant(userId, changeOfGrant as typeof expired, 'files');
    await restartWith(moved());
    expect(await useEverything()).not.toContain(200);
    expectNothingAt(stranger, tokens);
    expect(await connection()).toMatchObject({ health: 'reconnect_needed', cause: 'registration_changed' });
    await restartWith(signedOutElsewhere());
    expect((await getJson(agent, `${site.url}/threads/current?app=files`)).status).toBe(200);
  });

  test('lists and counts the connections that it sets aside, with one audit entry', async () => {
    await restartWith(filesOf(stranger));
    const inState = async () =>
      ((await admin.call('GET', '/connections?app=files&health=reconnect_needed')).json.items as unknown[]).length;
    await until(async () => (await inState()) === 1);
    const { json } = await admin.call('GET', '/overview');
    expect(JSON.stringify(json)).toContain('1 connection to Files needs reconnecting');
    const entries = async () =>
      (await admin.call('GET', '/audit?event=connected_app.connections_set_aside')).json.items as { facts: object }[];
    await until(async () => (await entries()).length > 0);
    expect((await entries())[0]).toMatchObject({ target: { kind: 'connected_app', id: 'files' }, facts: { count: 1 } });
    await restartWith(filesOf(home));
    await until(async () => (await inState()) === 0);
  });

  test('an idle connection is not checked at the other provider', async () => {
    const tokens = await tokensOfUser();
    await storage.changeGrant(userId, expired, 'files');
    await restartWith(filesOf(stranger));
    const place = async () => (await storage.store.get('connection-check:files'))?.version;
    const before = await place();
    await until(async () => (await place()) !== before);
    expectNothingAt(stranger, tokens);
  });

  test('disconnecting calls no provider, and says so', async () => {
    const tokens = await tokensOfUser();
    await restartWith(filesOf(stranger));
    expect(await disconnect(site, agent, 'files')).toMatchObject({ revocation: 'unconfirmed' });
    expectNothingAt(stranger, tokens);
  });

  test('a new connection keeps no refresh token and no scopes, and revokes nothing at the new provider', async () => {
    const [, refreshToken = ''] = await tokensOfUser();
    await restartWith(filesOf(stranger));
    stranger.signInAs({ sub: 'ann', email: 'ann@example.test' });
    await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Reconnect with these' });
    expect(await connection()).toMatchObject({ health: 'active' });
    const grant = await storage.readGrant(userId, 'files');
    expect(grant.refreshToken).not.toBe(refreshToken);
    expect(grant.registration.issuer).toBe(stranger.issuer);
    expectNothingAt(stranger, [refreshToken]);
    await disconnect(site, agent, 'files');
  });
});

describe('R116 a pending request', () => {
  test.each<[string, () => App, () => App]>([
    ['', () => filesOf(home), () => filesOf(home, { endpoints: stranger.endpointSettings() })],
    [' to where users sign out', signedOutElsewhere, () => signedOutElsewhere({ token: `${stranger.issuer}/token` })],
  ])('does not send its code to a token endpoint that moved meanwhile%s', async (_where, app, moved) => {
    await restartWith(app());
    const csrf = (await sessionOf(site, agent)).csrfToken;
    const started = await agent.request(`${site.url}/connections/files`, {
      method: 'POST',
      body: new URLSearchParams({ _csrf: csrf }),
      follow: false,
    });
    const provider = await fetch(started.headers.get('location') ?? '', { redirect: 'manual' });
    const callback = provider.headers.get('location') ?? '';
    await restartWith(moved());
    const page = await agent.get(callback);
    expect(page.status).toBe(400);
    expect(page.body).toContain('The settings of this app changed');
    expect(stranger.hitsOf('token')).toEqual([]);
  });
});

describe('R116 the administration', () => {
  const asRegistered = (app: App) => {
    const { clientSecret: _, ...registration } = app;
    return { ...registration, clientSecret: home.clientSecret };
  };

  test('refuses to register an app over connections of another registration, and accepts the earlier registration', async () => {
    const tokens = await tokensOfUser();
    await restartWith();
    const refused = await admin.call('POST', '/connected-apps', asRegistered(filesOf(stranger)));
    expect([refused.status, refused.json.errors]).toEqual([
      400,
      [expect.objectContaining({ pointer: '#/id', rule: 'has_connections' })],
    ]);
    expect(JSON.stringify(refused.json)).toContain('register the app with the same issuer');
    const taken = await admin.call('POST', '/connected-apps', asRegistered(filesOf(home)));
    expect([taken.status, taken.json]).toEqual([201, expect.anything()]);
    expect(await connection()).toMatchObject({ health: 'active' });
    expectNothingAt(stranger, tokens);

    for (const [pointer, changes] of [
      ['#/apiBaseUrl', { apiBaseUrl: stranger.issuer }],
      ['#/clientId', { clientId: 'another-client' }],
      ['#/issuer', { issuer: stranger.issuer }],
      ['#/discoveryUrl', { discoveryUrl: `${stranger.issuer}/metadata` }],
      ['#/account/url', { account: { field: 'id', url: `${stranger.issuer}/me` } }],
    ] as const) {
      const { json: current } = await admin.call('GET', '/connected-apps/files');
      const body = { ...asRegistered(filesOf(home)), ...changes, version: current.version };
      const { status, json } = await admin.call('PUT', '/connected-apps/files', body);
      const errors = json.errors as { pointer: string; rule: string }[];
      expect([status, errors.filter(({ rule }) => rule === 'has_connections').map((one) => one.pointer)]).toEqual([
        400,
        [pointer],
      ]);
    }
    await disconnect(site, agent, 'files');
    expect((await admin.call('DELETE', '/connected-apps/files')).status).toBe(204);
  });

  test('refuses to send tokens to a host of the app that gets none, and accepts a change within its provider', async () => {
    await disconnect(site, agent, 'files');
    await restartWith();
    expect((await admin.call('POST', '/connected-apps', asRegistered(signedOutElsewhere()))).status).toBe(201);
    await connectAnew();
    const tokens = await tokensOfUser();
    const put = async (app: App) => {
      const { json: current } = await admin.call('GET', '/connected-apps/files');
      return admin.call('PUT', '/connected-apps/files', { ...asRegistered(app), version: current.version });
    };
    for (const [pointer, app] of [
      ['#/endpoints/token', signedOutElsewhere({ token: `${stranger.issuer}/token` })],
      ['#/endpoints/revocation', signedOutElsewhere({ revocation: `${stranger.issuer}/revocation` })],
      ['#/endpoints/userinfo', signedOutElsewhere({ userinfo: `${stranger.issuer}/userinfo` })],
      ['#/apiBaseUrl', signedOutElsewhere({}, { apiBaseUrl: stranger.issuer })],
    ] as const) {
      const { status, json } = await put(app);
      expect([status, json.errors]).toEqual([400, [expect.objectContaining({ pointer, rule: 'has_connections' })]]);
    }
    await useEverything();
    expectNothingAt(stranger, tokens);
    expect((await put(filesOf(home, { endpoints: home.endpointSettings() }))).status).toBe(200);
    expect(await connection()).toMatchObject({ health: 'active' });
    await disconnect(site, agent, 'files');
    expect((await admin.call('DELETE', '/connected-apps/files')).status).toBe(204);
  });
});
