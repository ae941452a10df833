/**
 * R116: an app that moves to another provider sends it no tokens, and has its connections again when it is changed
 * back.
 */
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { APP_DEFAULTS, getJson } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { until } from '../../support/until.ts';
import { type Administrator, createAdministrator, exchange, relayThread } from '../relay/service.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { connectionsOf, disconnect, openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

type App = Record<string, unknown>;

let ownProvider: HostileProvider;
let otherProvider: HostileProvider;
let site: HostileSite;
let agent: UserAgent;
let userId: string;
let storage: StorageAccess;
let admin: Administrator;
let relayToken: string;
let appsFileText: string;

const filesOf = (provider: HostileProvider, changes: App = {}): App =>
  provider.app(site.url, { id: 'files', name: 'Files', signIn: undefined, ...changes });

/** An app of the own provider whose users sign out at the other provider, which gets no other token. */
const signedOutElsewhere = (endpoints: App = {}, changes: App = {}): App =>
  filesOf(ownProvider, {
    endpoints: { ...ownProvider.endpointSettings(), endSession: `${otherProvider.issuer}/end_session`, ...endpoints },
    ...changes,
  });

/** Writes these apps into the file, in addition to the sign-in app, and restarts. */
async function restartWith(...apps: App[]): Promise<void> {
  const text = JSON.stringify([ownProvider.app(site.url), ...apps]);
  if (text === appsFileText) return;
  appsFileText = text;
  writeFileSync(site.env.CONNECTED_APPS_FILE ?? '', text);
  await site.restart();
}

/** Asserts that the provider received none of these tokens. */
function expectNothingAt(provider: HostileProvider, tokens: readonly string[]): void {
  const received = JSON.stringify(provider.hits);
  for (const token of tokens) expect(received).not.toContain(token);
}

async function tokensOfUser(): Promise<string[]> {
  const { accessToken, refreshToken = '' } = await storage.readGrant(userId, 'files');
  return [accessToken, refreshToken];
}

const readConnection = async () => (await connectionsOf(site, agent)).find(({ app }) => app === 'files');

async function connectAgain(): Promise<void> {
  await disconnect(site, agent, 'files').catch(() => undefined);
  await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Connect' });
  expect(await readConnection()).toMatchObject({ health: 'active' });
}

const expiredTimes = () => ({ obtainedAt: Date.now() - 3_600_000, expiresAt: Date.now() - 1_000 });

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
  [ownProvider, otherProvider] = await Promise.all([startHostileProvider(), startHostileProvider()]);
  site = await startHostileSite({
    provider: ownProvider,
    apps: (provider, url) => [provider.app(url), provider.app(url, { id: 'files', name: 'Files', signIn: undefined })],
    // Idle connections are refreshed within a minute: these refreshes must not reach the other provider either.
    env: { CONNECTION_CHECK_SECONDS: '60' },
  });
  agent = createUserAgent();
  ownProvider.signInAs({ sub: 'ann', email: 'ann@example.test' });
  expect((await attempt(site, { agent })).signedIn).toBe(true);
  ({ userId } = await sessionOf(site, agent));
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  relayToken = (await admin.createRelayToken({ apps: ['files'], assertUser: true })).token;
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
  await Promise.all([ownProvider?.close(), otherProvider?.close()]);
});
beforeEach(async () => {
  await restartWith(filesOf(ownProvider));
  ownProvider.reset();
  if ((await readConnection())?.health !== 'active') await connectAgain();
  otherProvider.reset();
});

describe('R116 a change of an app in the file', () => {
  test.each<[string, () => App]>([
    ['of the issuer', () => filesOf(otherProvider)],
    ['of the client', () => filesOf(ownProvider, { clientId: 'another-client' })],
    ['of the API base URL', () => filesOf(ownProvider, { apiBaseUrl: otherProvider.issuer })],
    ['of one endpoint', () => filesOf(ownProvider, { endpoints: { revocation: `${otherProvider.issuer}/revoke` } })],
    ['of all endpoints', () => filesOf(ownProvider, { endpoints: otherProvider.endpointSettings() })],
    ['of the URL of the metadata', () => filesOf(ownProvider, { discoveryUrl: `${otherProvider.issuer}/metadata` })],
  ])(
    '%s sets the connection aside and sends no token to the other provider; changing it back restores the connection',
    async (_change, changedApp) => {
      const tokens = await tokensOfUser();
      await restartWith(changedApp());

      expect(await readConnection()).toMatchObject({ health: 'reconnect_needed', cause: 'registration_changed' });
      expect(await useEverything()).not.toContain(200);
      expectNothingAt(otherProvider, tokens);
      // The health follows from the registration: nothing was stored.
      expect((await storage.readGrant(userId, 'files')).failure).toBeUndefined();

      await restartWith(filesOf(ownProvider));
      expect(await readConnection()).toMatchObject({ health: 'active', cause: null });
      expect((await getJson(agent, `${site.url}/threads/current?app=files`)).status).toBe(200);
    },
  );

  test.each<[string, () => App, object]>([
    ['the refresh token', () => signedOutElsewhere({ token: `${otherProvider.issuer}/token` }), expiredTimes],
    ['the access token', () => signedOutElsewhere({}, { apiBaseUrl: otherProvider.issuer }), () => ({})],
    [
      'the access token for userinfo',
      () => signedOutElsewhere({ userinfo: `${otherProvider.issuer}/userinfo` }),
      () => ({}),
    ],
  ])('does not send %s to the host where users sign out', async (_token, changedApp, changeOfGrant) => {
    await restartWith(signedOutElsewhere());
    await connectAgain();
    const tokens = await tokensOfUser();
    await storage.changeGrant(userId, changeOfGrant as typeof expiredTimes, 'files');
    await restartWith(changedApp());

    expect(await useEverything()).not.toContain(200);
    expectNothingAt(otherProvider, tokens);
    expect(await readConnection()).toMatchObject({ health: 'reconnect_needed', cause: 'registration_changed' });

    await restartWith(signedOutElsewhere());
    expect((await getJson(agent, `${site.url}/threads/current?app=files`)).status).toBe(200);
  });

  test('lists the connections that it sets aside as needing a reconnect, and writes an audit entry with their number', async () => {
    await restartWith(filesOf(otherProvider));
    const countSetAside = async () => {
      const { json } = await admin.call('GET', '/connections?app=files&health=reconnect_needed');
      return (json.items as unknown[]).length;
    };
    await until(async () => (await countSetAside()) === 1);

    const { json } = await admin.call('GET', '/overview');
    expect(JSON.stringify(json)).toContain('1 connection to Files needs reconnecting');

    const auditEntries = async () =>
      (await admin.call('GET', '/audit?event=connected_app.reconnect_needed')).json.items as { facts: object }[];
    await until(async () => (await auditEntries()).length > 0);

    expect((await auditEntries())[0]).toMatchObject({
      target: { kind: 'connected_app', id: 'files' },
      facts: { count: 1 },
    });

    await restartWith(filesOf(ownProvider));
    await until(async () => (await countSetAside()) === 0);
  });

  test('causes no check of an idle connection at the other provider', async () => {
    const tokens = await tokensOfUser();
    await storage.changeGrant(userId, expiredTimes, 'files');
    await restartWith(filesOf(otherProvider));
    const readCheckState = async () => (await storage.store.get('connection-check:files'))?.version;
    const versionBeforeCheck = await readCheckState();
    await until(async () => (await readCheckState()) !== versionBeforeCheck);
    expectNothingAt(otherProvider, tokens);
  });

  test('leaves the revocation unconfirmed when a user disconnects, since no provider is called', async () => {
    const tokens = await tokensOfUser();
    await restartWith(filesOf(otherProvider));

    expect(await disconnect(site, agent, 'files')).toMatchObject({ revocation: 'unconfirmed' });
    expectNothingAt(otherProvider, tokens);
  });

  test('is followed by a new connection without the earlier refresh token, which is not revoked at the other provider', async () => {
    const [, refreshToken = ''] = await tokensOfUser();
    await restartWith(filesOf(otherProvider));
    otherProvider.signInAs({ sub: 'ann', email: 'ann@example.test' });
    await agent.submit(
      await agent.get(`${site.url}/connections/files`),
      {},
      { button: 'Reconnect with these permissions' },
    );

    expect(await readConnection()).toMatchObject({ health: 'active' });

    const grant = await storage.readGrant(userId, 'files');
    expect(grant.refreshToken).not.toBe(refreshToken);
    expect(grant.registration.issuer).toBe(otherProvider.issuer);
    expectNothingAt(otherProvider, [refreshToken]);
    await disconnect(site, agent, 'files');
  });
});

describe('R116 a pending request', () => {
  test.each<[string, () => App, () => App]>([
    ['', () => filesOf(ownProvider), () => filesOf(ownProvider, { endpoints: otherProvider.endpointSettings() })],
    [
      ', to the host where users sign out',
      signedOutElsewhere,
      () => signedOutElsewhere({ token: `${otherProvider.issuer}/token` }),
    ],
  ])('sends no code to a token endpoint that moved after the request started%s', async (_where, app, changedApp) => {
    await restartWith(app());
    const csrf = (await sessionOf(site, agent)).csrfToken;
    const requestStart = await agent.request(`${site.url}/connections/files`, {
      method: 'POST',
      body: new URLSearchParams({ _csrf: csrf }),
      follow: false,
    });
    const providerResponse = await fetch(requestStart.headers.get('location') ?? '', { redirect: 'manual' });
    const callback = providerResponse.headers.get('location') ?? '';
    await restartWith(changedApp());

    const page = await agent.get(callback);
    expect(page.status).toBe(400);
    expect(page.body).toContain('The settings of this app changed');
    expect(otherProvider.hitsOf('token')).toEqual([]);
  });
});

describe('R116 the administration', () => {
  const asRegistered = (app: App) => {
    const { clientSecret: _, ...registration } = app;
    return { ...APP_DEFAULTS, ...registration, clientSecret: ownProvider.clientSecret };
  };

  test('refuses to register an app over connections of another registration, and accepts the earlier registration', async () => {
    const tokens = await tokensOfUser();
    await restartWith();

    const refusal = await admin.call('POST', '/connected-apps', asRegistered(filesOf(otherProvider)));
    expect([refusal.status, refusal.json.errors]).toEqual([
      400,
      [expect.objectContaining({ pointer: '#/id', rule: 'has_connections' })],
    ]);
    expect(JSON.stringify(refusal.json)).toContain('register the app with the same issuer');

    const registered = await admin.call('POST', '/connected-apps', asRegistered(filesOf(ownProvider)));
    expect(registered.status).toBe(201);
    expect(registered.json).toEqual(expect.anything());
    expect(await readConnection()).toMatchObject({ health: 'active' });
    expectNothingAt(otherProvider, tokens);

    for (const [pointer, changes] of [
      ['#/apiBaseUrl', { apiBaseUrl: otherProvider.issuer }],
      ['#/clientId', { clientId: 'another-client' }],
      ['#/issuer', { issuer: otherProvider.issuer }],
      ['#/discoveryUrl', { discoveryUrl: `${otherProvider.issuer}/metadata` }],
      ['#/account/url', { account: { field: 'id', url: `${otherProvider.issuer}/me` } }],
    ] as const) {
      const { json: current } = await admin.call('GET', '/connected-apps/files');
      const body = { ...asRegistered(filesOf(ownProvider)), ...changes, version: current.version };
      const { status, json } = await admin.call('PUT', '/connected-apps/files', body);
      const errors = json.errors as { pointer: string; rule: string }[];
      expect([status, errors.filter(({ rule }) => rule === 'has_connections').map((error) => error.pointer)]).toEqual([
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

    await connectAgain();
    const tokens = await tokensOfUser();
    const saveApp = async (app: App) => {
      const { json: current } = await admin.call('GET', '/connected-apps/files');
      return admin.call('PUT', '/connected-apps/files', { ...asRegistered(app), version: current.version });
    };
    for (const [pointer, app] of [
      ['#/endpoints/token', signedOutElsewhere({ token: `${otherProvider.issuer}/token` })],
      ['#/endpoints/revocation', signedOutElsewhere({ revocation: `${otherProvider.issuer}/revocation` })],
      ['#/endpoints/userinfo', signedOutElsewhere({ userinfo: `${otherProvider.issuer}/userinfo` })],
      ['#/apiBaseUrl', signedOutElsewhere({}, { apiBaseUrl: otherProvider.issuer })],
    ] as const) {
      const { status, json } = await saveApp(app);
      expect([status, json.errors]).toEqual([400, [expect.objectContaining({ pointer, rule: 'has_connections' })]]);
    }
    await useEverything();
    expectNothingAt(otherProvider, tokens);
    expect((await saveApp(filesOf(ownProvider, { endpoints: ownProvider.endpointSettings() }))).status).toBe(200);
    expect(await readConnection()).toMatchObject({ health: 'active' });

    await disconnect(site, agent, 'files');
    expect((await admin.call('DELETE', '/connected-apps/files')).status).toBe(204);
  });
});
