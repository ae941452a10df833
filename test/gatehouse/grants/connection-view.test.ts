/** A connection as JSON and on pages: its health, scopes and choices. */
import { describe, expect, test } from 'vitest';
import type { CurrentApps } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import type { Connection } from '../../../src/gatehouse/grants/connection.ts';
import {
  connectionJson,
  connectionView,
  connectionViews,
  disconnectedJson,
} from '../../../src/gatehouse/grants/connection-view.ts';
import type { Connections } from '../../../src/gatehouse/grants/connections.ts';
import { failureText } from '../../../src/gatehouse/grants/refresh-failure.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';

const GATEHOUSE_URL = 'https://gatehouse.test';
const NOW = Date.parse('2026-01-02T03:04:05Z');
const appOf = (id: string, changes: object = {}) =>
  ({
    id,
    name: `App ${id}`,
    disabled: false,
    scopes: ['openid', 'profile', 'mail'],
    callbackUrls: [`${GATEHOUSE_URL}/oauth/callback/${id}`],
    ...changes,
  }) as unknown as ConnectedApp;
const connectionOf = (app: string, changes: Partial<Connection> = {}): Connection => ({
  id: 'c1',
  cause: undefined,
  requestedScopes: undefined,
  refreshedAt: undefined,
  app,
  health: 'active',
  scopes: ['openid', 'mail'],
  account: {},
  connectedAt: NOW,
  lastUsedAt: undefined,
  ...changes,
});

const ACCOUNTS = [
  [{ email: 'ada@example.test', name: 'Ada', subject: 's1' }, 'ada@example.test'],
  [{ name: 'Ada', subject: 's1' }, 'Ada'],
  [{ subject: 's1', accountId: '7' }, 's1'],
  [{ accountId: '7' }, '7'],
] as const;

describe('a connection', () => {
  test.each(ACCOUNTS)('shows the account by its most readable name: %j is %s', (account, name) => {
    expect(connectionJson(connectionOf('a', { account }), appOf('a'), GATEHOUSE_URL).account).toBe(name);
    expect(connectionView(appOf('a'), connectionOf('a', { account }), GATEHOUSE_URL).account).toBe(name);
  });

  test('has null for unknown facts in JSON, and the id as the name of an app that no longer exists', () => {
    expect(connectionJson(connectionOf('gone', { id: undefined }), undefined, GATEHOUSE_URL)).toEqual({
      id: null,
      app: 'gone',
      appName: 'gone',
      account: null,
      health: 'active',
      scopes: ['openid', 'mail'],
      missingScopes: [],
      stepUpRequired: false,
      cause: null,
      checkedAt: null,
      notCheckedSince: null,
      lastUsedAt: null,
      apiBaseUrl: null,
      connectUrl: `${GATEHOUSE_URL}/connections/gone`,
    });
  });

  test('has the API base URL of the grant if the app allows its host, or else that of the app', () => {
    const apiBaseUrl = 'https://api.test';
    const appWithGrantedUrls = { apiBaseUrl, apiBaseUrlFrom: { member: 'api_url', hosts: ['.api.test'] } };
    const connectionWithUrl = (url: string) => connectionOf('a', { apiBaseUrl: url });
    const urlOf = (app: object, connection: Connection) => {
      const { apiBaseUrl: shownUrl } = connectionView(appOf('a', app), connection, GATEHOUSE_URL);
      expect(connectionJson(connection, appOf('a', app), GATEHOUSE_URL).apiBaseUrl).toBe(shownUrl ?? null);
      return shownUrl;
    };

    expect(urlOf(appWithGrantedUrls, connectionWithUrl('https://eu.api.test'))).toBe('https://eu.api.test');
    expect(urlOf(appWithGrantedUrls, connectionWithUrl('https://eu.elsewhere.test'))).toBe(apiBaseUrl);
    expect(urlOf({ apiBaseUrl }, connectionWithUrl('https://eu.api.test'))).toBe(apiBaseUrl);
    expect(urlOf({}, connectionOf('a'))).toBeUndefined();
  });

  test('has its cause and its last use in JSON and on the page', () => {
    const failed = connectionOf('a', { health: 'reconnect_needed', cause: 'grant_refused', lastUsedAt: NOW });
    expect(connectionJson(failed, appOf('a'), GATEHOUSE_URL)).toMatchObject({
      appName: 'App a',
      cause: 'grant_refused',
      lastUsedAt: '2026-01-02T03:04:05.000Z',
    });
    expect(connectionView(appOf('a'), failed, GATEHOUSE_URL)).toMatchObject({
      cause: failureText('grant_refused'),
      lastUsedAt: '2026-01-02T03:04:05.000Z',
      connectedAt: '2026-01-02T03:04:05.000Z',
      health: 'reconnect_needed',
    });
  });

  test('R113 that was not checked for long has its times in JSON and on the page, and a cause on the page', () => {
    const times = { checkedAt: NOW - 1_000, notCheckedSince: NOW - 2_000, connectedAt: NOW - 3_000, lastUsedAt: NOW };
    const unchecked = connectionOf('a', { ...times, cause: 'grant_refused' });
    const expectedTimes = { checkedAt: '2026-01-02T03:04:04.000Z', notCheckedSince: '2026-01-02T03:04:03.000Z' };

    expect(connectionJson(unchecked, appOf('a'), GATEHOUSE_URL)).toMatchObject(expectedTimes);
    expect(connectionView(appOf('a'), unchecked, GATEHOUSE_URL)).toMatchObject({
      ...expectedTimes,
      connectedAt: '2026-01-02T03:04:02.000Z',
      lastUsedAt: '2026-01-02T03:04:05.000Z',
      cause: 'It has not been used or checked for a while, so it may no longer work. The next use will check it.',
    });
  });

  test('that ended has the result of the revocation, and the response of the provider if it was called', () => {
    expect(disconnectedJson({ id: undefined, revocation: 'unsupported' })).toEqual({
      id: null,
      revocation: 'unsupported',
      providerResponse: null,
    });
    expect(disconnectedJson({ id: 'c1', revocation: 'pending', reply: { status: 503 } })).toEqual({
      id: 'c1',
      revocation: 'pending',
      providerResponse: { status: 503 },
    });
  });

  test('whose refresh failed has no cause on the page while the access token works', () => {
    const causeOf = (health: Connection['health']) =>
      connectionView(appOf('a'), connectionOf('a', { health, cause: 'provider_unavailable' }), GATEHOUSE_URL).cause;
    expect(causeOf('active')).toBeUndefined();
    expect(causeOf('expiring')).toBeUndefined();
    expect(causeOf('unverified')).toBe('The provider is not available. Try again shortly. If it lasts, reconnect.');
  });
});

describe('missing scopes', () => {
  const scopes = ['openid', 'profile', 'mail', 'files', 'offline_access'];
  const app = appOf('a', { scopes });
  const missingScopesOf = (changes: Partial<Connection>) => {
    const connection = connectionOf('a', changes);
    return [
      connectionJson(connection, app, GATEHOUSE_URL).missingScopes,
      connectionView(app, connection, GATEHOUSE_URL).more,
    ];
  };

  test('R4 are those that were neither requested nor granted, even if the provider grants them under other names', () => {
    const granted = ['https://provider.test/profile'];
    expect(missingScopesOf({ scopes: granted, requestedScopes: ['openid', 'profile', 'offline_access'] })).toEqual([
      ['mail', 'files'],
      { scopes: ['mail', 'files'], request: scopes },
    ]);
    expect(
      missingScopesOf({ scopes: ['files'], requestedScopes: scopes.filter((scope) => scope !== 'files') }),
    ).toEqual([[], undefined]);
  });

  test('R115 include declined scopes in the JSON, but on a page only if its URL names them', () => {
    const requestedScopes = ['openid', 'profile', 'offline_access'];
    const chosen = connectionOf('a', { scopes: requestedScopes, requestedScopes, declinedScopes: ['mail'] });
    expect(connectionJson(chosen, app, GATEHOUSE_URL).missingScopes).toEqual(['mail', 'files']);

    const offeredScopes = (scopesOfUrl?: string[]) =>
      connectionView(app, chosen, GATEHOUSE_URL, undefined, scopesOfUrl).more;
    expect(offeredScopes()).toEqual({ scopes: ['files'], request: [...requestedScopes, 'files'].toSorted(inOrder) });
    expect(offeredScopes(['mail', 'unknown'])).toEqual({
      scopes: ['mail'],
      request: [...requestedScopes, 'mail'].toSorted(inOrder),
    });
    expect(connectionView({ ...app, disabled: true }, chosen, GATEHOUSE_URL).more).toBeUndefined();
  });
  const inOrder = (first: string, second: string) => scopes.indexOf(first) - scopes.indexOf(second);

  test('of an imported grant are those not granted, if the provider uses the names of the app', () => {
    expect(missingScopesOf({ scopes: ['profile', 'mail'] })[0]).toEqual(['files']);
    for (const granted of [['https://provider.test/mail'], ['mail,profile'], []]) {
      expect(missingScopesOf({ scopes: granted })[0]).toEqual([]);
    }
  });
});

describe('the page of a connection', () => {
  const choicesOf = (connection?: Connection, scopes = ['openid', 'profile', 'mail']) =>
    connectionView(appOf('a', { scopes }), connection, GATEHOUSE_URL).choices;
  const tickedIn = (...parameters: Parameters<typeof choicesOf>) =>
    choicesOf(...parameters)?.flatMap(({ scope, ticked }) => (ticked ? [scope] : []));

  test('R4 offers every scope except openid, and ticks the requested ones, or all before the first connection', () => {
    const connectionWith = (...scopes: string[]) => connectionOf('a', { requestedScopes: ['openid', ...scopes] });
    expect(choicesOf(connectionWith('mail'))).toEqual([
      { scope: 'profile', ticked: false, isNew: true },
      { scope: 'mail', ticked: true, isNew: false },
    ]);
    expect(tickedIn(connectionWith())).toEqual([]);
    expect(tickedIn()).toEqual(['profile', 'mail']);
    expect(connectionView(appOf('a'), undefined, GATEHOUSE_URL)).toMatchObject({
      health: 'not_connected',
      scopes: ['openid', 'profile', 'mail'],
    });
  });

  test('ticks requested scopes even if they were granted under other names, and always offline_access', () => {
    const scopes = ['openid', 'email', 'mail.read', 'offline_access'];
    const granted = ['openid', 'https://provider.test/email', 'https://provider.test/mail.read'];
    expect(tickedIn(connectionOf('a', { requestedScopes: scopes, scopes: granted }), scopes)).toEqual(scopes.slice(1));

    const withoutOfflineAccess = connectionOf('a', { requestedScopes: ['openid', 'email'] });
    expect(choicesOf(withoutOfflineAccess, scopes)?.at(-1)).toEqual({
      scope: 'offline_access',
      ticked: true,
      isNew: true,
    });
  });

  test('ticks the granted scopes of an imported grant, or all if its names are not those of the app', () => {
    expect(tickedIn(connectionOf('a'))).toEqual(['mail']);
    for (const scopes of [['https://provider.test/mail'], ['mail,profile'], []]) {
      expect(tickedIn(connectionOf('a', { scopes }))).toEqual(['profile', 'mail']);
    }
  });

  test('ticks all scopes of an app without openid if no requested one is left, so that the form can be submitted', () => {
    expect(tickedIn(connectionOf('a', { requestedScopes: ['gone'] }), ['repo', 'gist'])).toEqual(['repo', 'gist']);
  });

  test('says why an app cannot be used', () => {
    const reasonFor = (changes: object) => connectionView(appOf('a', changes), undefined, GATEHOUSE_URL).unusable;
    expect(reasonFor({})).toBeUndefined();
    expect(reasonFor({ disabled: true })).toMatch(/^An administrator has disabled this app\b.*\.$/);
    expect(reasonFor({ callbackUrls: [] })).toMatch(/callback URL of this app is not in its registration/);
    expect(reasonFor({ disabled: true, callbackUrls: [] })).toMatch(/disabled/);
  });

  test('shows since when a revocation is pending', () => {
    expect(connectionView(appOf('a'), undefined, GATEHOUSE_URL, NOW).revocationPendingSince).toBe(
      '2026-01-02T03:04:05.000Z',
    );
    expect(connectionView(appOf('a'), undefined, GATEHOUSE_URL).revocationPendingSince).toBeUndefined();
  });

  test('shows a disabled app only to users who have connected it, and connected apps first', async () => {
    const apps = ['a', 'b', 'c'].map((id) => appOf(id, { disabled: id !== 'a' }));
    const shown = await connectionViews(
      { list: () => apps, nameOf: (id: string) => id } as unknown as CurrentApps,
      {
        list: async () => [connectionOf('b')],
        pendingRevocations: async () => [{ app: 'a', since: NOW }],
      } as unknown as Connections,
      'u1',
      GATEHOUSE_URL,
    );
    expect(shown.map(({ id, health, revocationPendingSince }) => [id, health, revocationPendingSince])).toEqual([
      ['b', 'active', undefined],
      ['a', 'not_connected', '2026-01-02T03:04:05.000Z'],
    ]);
  });
});
