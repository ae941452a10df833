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
import { failureText } from '../../../src/gatehouse/grants/grant.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';

const HREF = 'https://gatehouse.test';
const AT = Date.parse('2026-01-02T03:04:05Z');
const appOf = (id: string, changes: object = {}) =>
  ({
    ...{ id, name: `App ${id}`, disabled: false, scopes: ['openid', 'profile', 'mail'] },
    callbackUrls: [`${HREF}/oauth/callback/${id}`],
    ...changes,
  }) as unknown as ConnectedApp;
const connectionOf = (app: string, changes: Partial<Connection> = {}): Connection => ({
  id: 'c1',
  cause: undefined,
  ...{ requestedScopes: undefined, refreshedAt: undefined },
  ...{ app, health: 'active', scopes: ['openid', 'mail'], account: {}, connectedAt: AT, lastUsedAt: undefined },
  ...changes,
});

const ACCOUNTS = [
  [{ email: 'ada@example.test', name: 'Ada', subject: 's1' }, 'ada@example.test'],
  [{ name: 'Ada', subject: 's1' }, 'Ada'],
  [{ subject: 's1', accountId: '7' }, 's1'],
  [{ accountId: '7' }, '7'],
] as const;

describe('as JSON', () => {
  test.each(ACCOUNTS)('shows the account by its most readable name: %j is %s', (account, name) => {
    expect(connectionJson(connectionOf('a', { account }), appOf('a'), HREF).account).toBe(name);
    expect(connectionView(appOf('a'), connectionOf('a', { account }), HREF).account).toBe(name);
  });

  test('unknown facts are null, and an app that no longer exists is shown by its id', () => {
    expect(connectionJson(connectionOf('gone', { id: undefined }), undefined, HREF)).toEqual({
      ...{
        id: null,
        app: 'gone',
        name: 'gone',
        account: null,
        health: 'active',
        scopes: ['openid', 'mail'],
        missingScopes: [],
      },
      ...{ cause: null, checkedAt: null, notCheckedSince: null, lastUsedAt: null, apiBaseUrl: null },
      connectUrl: `${HREF}/connections/gone`,
    });
  });

  test('shows the URL of the app, or the URL of the grant while the app allows its host', () => {
    const apiBaseUrl = 'https://api.test';
    const from = { apiBaseUrl, apiBaseUrlFrom: { member: 'api_url', hosts: ['.api.test'] } };
    const granted = (url: string) => connectionOf('a', { apiBaseUrl: url });
    const urlOf = (app: object, connection: Connection) => {
      const { apiBaseUrl: shown } = connectionView(appOf('a', app), connection, HREF);
      expect(connectionJson(connection, appOf('a', app), HREF).apiBaseUrl).toBe(shown ?? null);
      return shown;
    };
    expect(urlOf(from, granted('https://eu.api.test'))).toBe('https://eu.api.test');
    expect(urlOf(from, granted('https://eu.elsewhere.test'))).toBe(apiBaseUrl);
    expect(urlOf({ apiBaseUrl }, granted('https://eu.api.test'))).toBe(apiBaseUrl);
    expect(urlOf({}, connectionOf('a'))).toBeUndefined();
  });

  test('has the cause and the last use, if there are any', () => {
    const failed = connectionOf('a', { health: 'reconnect_needed', cause: 'grant_refused', lastUsedAt: AT });
    expect(connectionJson(failed, appOf('a'), HREF)).toMatchObject({
      ...{ name: 'App a', cause: 'grant_refused', lastUsedAt: '2026-01-02T03:04:05.000Z' },
    });
    expect(connectionView(appOf('a'), failed, HREF)).toMatchObject({
      ...{ cause: failureText('grant_refused'), lastUsedAt: '2026-01-02T03:04:05.000Z' },
      ...{ connectedAt: '2026-01-02T03:04:05.000Z', health: 'reconnect_needed' },
    });
  });

  test('R113 a connection that was not checked for long has its times in JSON and on the page, and a cause on the page', () => {
    const times = { checkedAt: AT - 1_000, notCheckedSince: AT - 2_000, connectedAt: AT - 3_000, lastUsedAt: AT };
    const stale = connectionOf('a', { ...times, cause: 'grant_refused' });
    const expectedTimes = { checkedAt: '2026-01-02T03:04:04.000Z', notCheckedSince: '2026-01-02T03:04:03.000Z' };
    expect(connectionJson(stale, appOf('a'), HREF)).toMatchObject(expectedTimes);
    expect(connectionView(appOf('a'), stale, HREF)).toMatchObject({
      ...{ ...expectedTimes, connectedAt: '2026-01-02T03:04:02.000Z', lastUsedAt: '2026-01-02T03:04:05.000Z' },
      cause: 'It has not been used or checked for a while, so it may no longer work. The next use will check it.',
    });
  });

  test('a disconnection has the result of the revocation, and the response of the provider if it was called', () => {
    expect(disconnectedJson({ id: undefined, revocation: 'unsupported' })).toEqual({
      ...{ id: null, revocation: 'unsupported', provider: null },
    });
    expect(disconnectedJson({ id: 'c1', revocation: 'pending', reply: { status: 503 } })).toEqual({
      ...{ id: 'c1', revocation: 'pending', provider: { status: 503 } },
    });
  });

  test('a failed refresh is no cause on the page while the access token works', () => {
    const causeOf = (health: Connection['health']) =>
      connectionView(appOf('a'), connectionOf('a', { health, cause: 'provider_unavailable' }), HREF).cause;
    expect([causeOf('active'), causeOf('expiring')]).toEqual([undefined, undefined]);
    expect(causeOf('unverified')).toBe('The provider is not available. Try again shortly. If it lasts, reconnect.');
  });
});

describe('missing scopes', () => {
  const scopes = ['openid', 'profile', 'mail', 'files', 'offline_access'];
  const app = appOf('a', { scopes });
  const missing = (changes: Partial<Connection>) => {
    const connection = connectionOf('a', changes);
    return [connectionJson(connection, app, HREF).missingScopes, connectionView(app, connection, HREF).more];
  };

  test('R4 are those that were neither requested nor granted, even if the provider grants them under other names', () => {
    const granted = ['https://provider.test/profile'];
    expect(missing({ scopes: granted, requestedScopes: ['openid', 'profile', 'offline_access'] })).toEqual([
      ['mail', 'files'],
      { scopes: ['mail', 'files'], request: scopes },
    ]);
    expect(missing({ scopes: ['files'], requestedScopes: scopes.filter((scope) => scope !== 'files') })).toEqual([
      [],
      undefined,
    ]);
  });

  test('R115 include declined scopes in the JSON, but on a page only if its URL names them', () => {
    const requestedScopes = ['openid', 'profile', 'offline_access'];
    const chosen = connectionOf('a', { scopes: requestedScopes, requestedScopes, declinedScopes: ['mail'] });
    expect(connectionJson(chosen, app, HREF).missingScopes).toEqual(['mail', 'files']);
    const more = (wanted?: string[]) => connectionView(app, chosen, HREF, undefined, wanted).more;
    expect(more()).toEqual({ scopes: ['files'], request: [...requestedScopes, 'files'].toSorted(inOrder) });
    expect(more(['mail', 'unknown'])).toEqual({
      ...{ scopes: ['mail'], request: [...requestedScopes, 'mail'].toSorted(inOrder) },
    });
    expect(connectionView({ ...app, disabled: true }, chosen, HREF).more).toBeUndefined();
  });
  const inOrder = (one: string, other: string) => scopes.indexOf(one) - scopes.indexOf(other);

  test('of an imported grant are those not granted, if the provider uses the names of the app', () => {
    expect(missing({ scopes: ['profile', 'mail'] })[0]).toEqual(['files']);
    for (const granted of [['https://provider.test/mail'], ['mail,profile'], []]) {
      expect(missing({ scopes: granted })[0]).toEqual([]);
    }
  });
});

describe('on a page', () => {
  const choices = (connection?: Connection, scopes = ['openid', 'profile', 'mail']) =>
    connectionView(appOf('a', { scopes }), connection, HREF).choices;
  const tickedIn = (...parameters: Parameters<typeof choices>) =>
    choices(...parameters)?.flatMap(({ scope, ticked }) => (ticked ? [scope] : []));

  test('R4 offers every scope except openid, and ticks the requested ones, or all before the first connection', () => {
    const requested = (...scopes: string[]) => connectionOf('a', { requestedScopes: ['openid', ...scopes] });
    expect(choices(requested('mail'))).toEqual([
      { scope: 'profile', ticked: false, isNew: true },
      { scope: 'mail', ticked: true, isNew: false },
    ]);
    expect(tickedIn(requested())).toEqual([]);
    expect(tickedIn()).toEqual(['profile', 'mail']);
    expect(connectionView(appOf('a'), undefined, HREF)).toMatchObject({
      ...{ health: 'not_connected', scopes: ['openid', 'profile', 'mail'] },
    });
  });

  test('ticks requested scopes even if they were granted under other names, and always offline_access', () => {
    const scopes = ['openid', 'email', 'mail.read', 'offline_access'];
    const granted = ['openid', 'https://provider.test/email', 'https://provider.test/mail.read'];
    expect(tickedIn(connectionOf('a', { requestedScopes: scopes, scopes: granted }), scopes)).toEqual(scopes.slice(1));
    const dropped = connectionOf('a', { requestedScopes: ['openid', 'email'] });
    expect(choices(dropped, scopes)?.at(-1)).toEqual({ scope: 'offline_access', ticked: true, isNew: true });
  });

  test('ticks the granted scopes of an imported grant, or all if its names are not those of the app', () => {
    expect(tickedIn(connectionOf('a'))).toEqual(['mail']);
    for (const scopes of [['https://provider.test/mail'], ['mail,profile'], []]) {
      expect(tickedIn(connectionOf('a', { scopes }))).toEqual(['profile', 'mail']);
    }
  });

  test('always ticks a scope of an app without openid, so that the unchanged form can be submitted', () => {
    expect(tickedIn(connectionOf('a', { requestedScopes: ['gone'] }), ['repo', 'gist'])).toEqual(['repo', 'gist']);
  });

  test('an app that cannot be used says why', () => {
    const unusable = (changes: object) => connectionView(appOf('a', changes), undefined, HREF).unusable;
    expect(unusable({})).toBeUndefined();
    expect(unusable({ disabled: true })).toMatch(/^An administrator has disabled this app\b.*\.$/);
    expect(unusable({ callbackUrls: [] })).toMatch(/callback URL of this app is not in its registration/);
    expect(unusable({ disabled: true, callbackUrls: [] })).toMatch(/disabled/);
  });

  test('shows since when a revocation is pending', () => {
    expect(connectionView(appOf('a'), undefined, HREF, AT).revocationPendingSince).toBe('2026-01-02T03:04:05.000Z');
    expect(connectionView(appOf('a'), undefined, HREF).revocationPendingSince).toBeUndefined();
  });

  test('shows a disabled app only to users who have connected it', async () => {
    const apps = ['a', 'b', 'c'].map((id) => appOf(id, { disabled: id !== 'a' }));
    const shown = await connectionViews(
      { list: () => apps } as unknown as CurrentApps,
      {
        list: async () => [connectionOf('b')],
        pendingRevocations: async () => [{ app: 'a', since: AT }],
      } as unknown as Connections,
      'u1',
      HREF,
    );
    expect(shown.map(({ id, health, revocationPendingSince }) => [id, health, revocationPendingSince])).toEqual([
      ['a', 'not_connected', '2026-01-02T03:04:05.000Z'],
      ['b', 'active', undefined],
    ]);
  });
});
