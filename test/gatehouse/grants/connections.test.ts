/** A connection as read from its grant, and the events when one is created or ended. */
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { createConnections } from '../../../src/gatehouse/grants/connections.ts';
import type { Grant, RefreshFailure, StoredGrant } from '../../../src/gatehouse/grants/grant.ts';
import type { GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { AppError } from '../../../src/shared/errors.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { PLATFORM } from '../../support/apps.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;
const APP = { ...PLATFORM, scopes: ['openid', 'mail'] } as ConnectedApp;

let stored: StoredGrant | undefined;
let lastUsedAt: number | undefined;
/** Whether each write succeeds. */
let writes: boolean[];
let saved: unknown[][];
let removed: unknown[][];
let planned: unknown[];
let cancelled: unknown[];
let events: [name: string, facts: unknown][];
let isOpen: boolean;
let isRegistered: boolean;
/** How the storage fails before it responds. */
let lookUps: (() => Promise<boolean>)[];
let attempts: (() => Promise<never>)[];
beforeEach(() => {
  [stored, lastUsedAt, isOpen, isRegistered] = [undefined, undefined, true, true];
  [writes, saved, removed, planned, cancelled, events] = [[], [], [], [], [], []];
  [lookUps, attempts] = [[], []];
});

const grantOf = (changes: Partial<Grant> = {}): Grant => ({
  ...{ id: 'c1', userId: 'u1', appId: APP.id, registration: registrationOf(APP) },
  ...{ accessToken: 'at1', refreshToken: 'rt1', scopes: ['openid'] },
  ...{ requestedScopes: ['openid', 'mail'], declinedScopes: ['files'], account: { subject: 's1' } },
  ...{ obtainedAt: NOW - HOUR, expiresAt: NOW + HOUR, connectedAt: NOW - 5 * HOUR, consentedAt: NOW - 5 * HOUR },
  ...{ failure: undefined, refresh: undefined },
  ...changes,
});
const REVOCATION = {
  ...{ userId: 'u1', appId: APP.id, connection: 'c1', registration: registrationOf(APP) },
  ...{ token: 'rt1', hint: 'refresh_token' },
};
const store = (changes: Partial<Grant> = {}, version = 3) => {
  stored = { grant: grantOf(changes), version };
};
const failure = (changes: Partial<RefreshFailure> = {}): RefreshFailure => ({
  ...{
    kind: 'passing',
    cause: 'provider_unavailable',
    since: NOW - 9,
    failures: 1,
    retryAt: NOW,
    reason: 'status_503',
  },
  ...changes,
});

const grants = {
  load: async () => stored,
  loadStored: async () => stored,
  lastUse: async () => lastUsedAt,
  list: async () => (stored ? [{ appId: 'platform', stored, lastUsedAt }] : []),
  async save(...parameters: unknown[]) {
    saved.push(parameters);
    return (writes.shift() ?? true) ? 9 : undefined;
  },
  async remove(...parameters: unknown[]) {
    removed.push(parameters);
    return writes.shift() ?? true;
  },
} as unknown as GrantStore;

const unavailable = () => Promise.reject(new AppError('storage_unavailable'));

const connections = (findApp: (id: string) => ConnectedApp | undefined = () => APP) =>
  createConnections({
    grants,
    revocations: {
      async plan(request) {
        planned.push(request);
        return `plan-${planned.length}`;
      },
      cancel: async (_userId, id) => void cancelled.push(id),
      attempt: async () => attempts.shift()?.() ?? { outcome: 'revoked', reply: { status: 200 } },
      revokeUnowned: async () => ({ outcome: 'revoked' }),
      pendingOf: async () => [],
    },
    links: { isOpen: async () => isOpen },
    findApp,
    isRegistered: async () => lookUps.shift()?.() ?? isRegistered,
    checkSeconds: 3_600,
    events: new Proxy(
      {},
      { get: (_target, name) => (facts: unknown) => void events.push([String(name), facts]) },
    ) as Events,
    clock: () => NOW,
  });
const find = () => connections().find('u1', 'platform');

describe('a connection', () => {
  test('has the facts of its grant', async () => {
    store({ apiBaseUrl: 'https://eu.api.test' });
    lastUsedAt = NOW - 7;
    const expected = {
      ...{ id: 'c1', app: 'platform', health: 'active', cause: undefined, reason: undefined, scopes: ['openid'] },
      ...{ requestedScopes: ['openid', 'mail'], declinedScopes: ['files'], account: { subject: 's1' } },
      ...{ apiBaseUrl: 'https://eu.api.test', connectedAt: NOW - 5 * HOUR, refreshedAt: NOW - HOUR },
      ...{ checkedAt: NOW - HOUR, lastUsedAt: NOW - 7, notCheckedSince: undefined },
    };
    expect(await find()).toEqual(expected);
    expect(await connections().list('u1')).toEqual([expected]);
  });

  test('that cannot be read needs reconnecting', async () => {
    stored = { unreadable: new Error('sealed') as never, version: 3 };
    lastUsedAt = NOW - 7;
    expect(await find()).toEqual({
      ...{ id: undefined, app: 'platform', health: 'reconnect_needed', cause: 'unreadable', scopes: [], account: {} },
      ...{ requestedScopes: undefined, connectedAt: undefined, refreshedAt: undefined, lastUsedAt: NOW - 7 },
    });
  });

  test('that does not exist is not found', async () => {
    expect([await find(), await connections().list('u1')]).toEqual([undefined, []]);
  });

  test.each<[string, Partial<Grant>, object]>([
    [
      'a failed refresh',
      { failure: failure() },
      { health: 'active', cause: 'provider_unavailable', reason: 'status_503' },
    ],
    [
      'an access token that has expired and cannot be renewed',
      { refreshToken: undefined, expiresAt: NOW },
      { health: 'reconnect_needed', cause: 'access_ended' },
    ],
    [
      'a refusal',
      { failure: failure({ kind: 'reconnect_needed', cause: 'grant_refused', reason: undefined }) },
      { health: 'reconnect_needed', cause: 'grant_refused', checkedAt: NOW - 9 },
    ],
    ['an import that was not checked', { accessToken: '' }, { refreshedAt: undefined, checkedAt: undefined }],
  ])('with %s', async (_words, changes, expected) => {
    store(changes);
    expect(await find()).toMatchObject(expected);
  });

  test('R113 has notCheckedSince if a working connection was not checked for two intervals', async () => {
    const stale = { obtainedAt: NOW - 3 * HOUR };
    store(stale);
    expect((await find())?.notCheckedSince).toBe(NOW - 3 * HOUR);
    store({ ...stale, refreshToken: undefined, expiresAt: NOW + 1 });
    expect(await find()).toMatchObject({ health: 'expiring', notCheckedSince: NOW - 3 * HOUR });
    store({ ...stale, failure: failure({ kind: 'unverified' }) });
    expect((await find())?.notCheckedSince).toBeUndefined();
    store(stale);
    lastUsedAt = NOW - 1;
    expect((await find())?.notCheckedSince).toBeUndefined();
  });
});

describe('connecting', () => {
  const response = { accessToken: 'at2', refreshToken: 'rt2', scopes: undefined } as unknown as TokenResponse;
  const make = (changes: object = {}) =>
    connections().connect({
      ...{
        userId: 'u1',
        app: APP,
        response,
        scopes: ['openid'],
        account: { subject: 's1' },
        origin: { ip: '192.0.2.1' } as never,
        writesOfUser: async () => ({ writes: [CONDITION] }),
      },
      ...changes,
    });
  const CONDITION = { exists: 'user' };
  const createdEvents = (connection: unknown, changes: object = {}) => [
    'connectionCreated',
    {
      ...{ userId: 'u1', app: 'platform', connection, scopes: ['openid'], link: undefined },
      ...{ origin: { ip: '192.0.2.1' }, ...changes },
    },
  ];
  const NEWLY_CREATED = createdEvents(expect.stringMatching(/^cn\w{11}$/));

  test('sends an event with the granted scopes, or else the requested ones', async () => {
    expect(await make()).toBe('connected');
    await make({ response: { ...response, scopes: ['mail'] } });
    expect(events).toEqual([NEWLY_CREATED, createdEvents(expect.anything(), { scopes: ['mail'] })]);
    expect(saved[0]?.slice(1)).toEqual([0, { writes: [CONDITION], beside: [] }]);
  });

  test('sends a recovery event if the earlier connection needed reconnecting, with the same origin', async () => {
    store({ failure: failure({ kind: 'unverified' }) });
    await make();
    store({ failure: failure() });
    await make();
    const of = { userId: 'u1', app: 'platform', connection: 'c1' };
    const recovered = ['connectionRecovered', { ...of, origin: { ip: '192.0.2.1' } }];
    expect(events).toEqual([createdEvents('c1'), recovered, createdEvents('c1')]);
    expect(planned).toEqual([]);
  });

  test('revokes the replaced grant of another account', async () => {
    store({ account: { subject: 's2' } });
    await make();
    expect(planned).toEqual([REVOCATION]);
    expect(events).toEqual([NEWLY_CREATED]);
  });

  test('R118 keeps the id of an earlier connection of the same account, even if another write comes first', async () => {
    store();
    writes = [false, true];
    await make();
    store({}, 4);
    await make({ account: { subject: 's2' } });
    store({ registration: registrationOf({ ...APP, clientId: 'c2' }) });
    await make();
    const ids = saved.map(([grant]) => (grant as Grant).id);
    expect(ids).toEqual(['c1', 'c1', expect.stringMatching(/^cn/), expect.stringMatching(/^cn/)]);
    expect(ids[2]).not.toBe(ids[3]);
  });

  test('starts over if another write comes first', async () => {
    store();
    writes = [false, true];
    expect(await make()).toBe('connected');
    expect([saved.length, saved[0]?.[1], events.length]).toEqual([2, 3, 1]);
  });

  test('uses up a connect link, and stores nothing if the link was used before', async () => {
    expect(await make({ link: 'l1' })).toBe('connected');
    const ticket = keys.connectTicket('u1', 'l1');
    expect(saved[0]?.[2]).toEqual({ writes: [CONDITION, { exists: ticket }, { delete: ticket }], beside: [] });
    expect(events).toEqual([createdEvents(expect.anything(), { link: 'l1' })]);
    [writes, isOpen] = [[false], false];
    expect(await make({ link: 'l1' })).toBe('link_ended');
    expect(events).toHaveLength(1);
    [writes, isOpen] = [[false, true], true];
    expect(await make({ link: 'l1' })).toBe('connected');
  });

  test('stores nothing for a deleted user, even if the deletion is seen only at the second write', async () => {
    expect(await make({ writesOfUser: async () => 'gone' })).toBe('user_gone');
    expect(saved).toEqual([]);
    writes = [false];
    const writesOfUser = async (isFirst: boolean) => (isFirst ? { writes: [CONDITION] } : 'gone');
    expect(await make({ writesOfUser })).toBe('user_gone');
    expect([saved.length, events]).toEqual([1, []]);
  });

  test('R119 sends the event if the grant is stored although the storage responded too late', async () => {
    vi.spyOn(grants, 'save').mockImplementationOnce(async (grant) => {
      stored = { grant, version: 7 };
      return unavailable();
    });
    expect(await make()).toBe('connected');
    expect([events, saved.map(([, ifVersion]) => ifVersion)]).toEqual([[NEWLY_CREATED], [7]]);
    vi.spyOn(grants, 'save').mockImplementationOnce(unavailable);
    await expect(make({ response: { ...response, accessToken: 'at3' } })).rejects.toMatchObject({
      code: 'storage_unavailable',
    });
    expect(events).toHaveLength(1);
    vi.restoreAllMocks();
  });

  test('R117 removes the connection if its app was deleted, even if the storage does not respond at first', async () => {
    lookUps = [unavailable, unavailable];
    isRegistered = false;
    expect([await make(), removed, events]).toEqual(['app_gone', [['u1', 'platform', 9]], []]);
    [lookUps, isRegistered] = [[unavailable], true];
    expect([await make(), events]).toEqual(['connected', [NEWLY_CREATED]]);
  });

  test('R117 restores the earlier connection of a deleted app, even if the storage responds too late', async () => {
    store();
    isRegistered = false;
    const before = grantOf();
    vi.spyOn(grants, 'save')
      .mockImplementationOnce(async () => 9)
      .mockImplementationOnce(async () => {
        stored = { grant: before, version: 10 };
        return unavailable();
      })
      .mockImplementationOnce(async () => undefined);
    writes = [false];
    expect(await make()).toBe('app_gone');
    expect([removed, stored?.version]).toEqual([[['u1', 'platform', 9]], 10]);
    vi.restoreAllMocks();
  });

  test('R117 restores no earlier connection of a user who is deleted meanwhile', async () => {
    store();
    isRegistered = false;
    const writesOfUser = async (isFirst: boolean) => (isFirst ? { writes: [CONDITION] } : 'gone');
    expect([await make({ writesOfUser }), removed, saved.length]).toEqual(['app_gone', [['u1', 'platform', 9]], 1]);
  });

  test('removes the connection of an app that was deleted meanwhile, and sends no event', async () => {
    isRegistered = false;
    expect(await make()).toBe('app_gone');
    expect([removed, events]).toEqual([[['u1', 'platform', 9]], []]);
  });

  test('removes the connection of an app that was deleted meanwhile, even if it was rewritten', async () => {
    isRegistered = false;
    writes = [true, false, true];
    const writesOfUser = async () => {
      store({}, 11);
      return { writes: [CONDITION] };
    };
    expect(await make({ writesOfUser })).toBe('app_gone');
    expect(removed).toEqual([
      ['u1', 'platform', 9],
      ['u1', 'platform', 11],
    ]);
  });

  test('R117 keeps the earlier connection if the app leaves the file while the user reconnects', async () => {
    store();
    isRegistered = false;
    expect(await make({ response: { accessToken: 'at2', refreshToken: 'rt2' } })).toBe('app_gone');
    expect([removed, saved.at(-1)?.slice(0, 2), events]).toEqual([[], [grantOf(), 9], []]);
  });

  test('R117 a callback for an earlier registration leaves a newer connection, even one created meanwhile', async () => {
    const registration = registrationOf({ ...APP, issuer: 'https://elsewhere.test' });
    store({ registration });
    isRegistered = false;
    expect([await make(), saved, removed, events]).toEqual(['app_gone', [], [], []]);
    [isRegistered, writes] = [true, [true, true]];
    const writesOfUser = async () => {
      isRegistered = false;
      return { writes: [CONDITION] };
    };
    expect(await make({ writesOfUser })).toBe('app_gone');
    expect([removed, saved.at(-1)?.slice(0, 2), events]).toEqual([[], [grantOf({ registration }), 9], []]);
  });
});

describe('disconnecting', () => {
  const REMOVED = { userId: 'u1', app: 'platform', connection: 'c1', revocation: 'revoked', reply: { status: 200 } };

  test('sends an event with the result of the revocation and with the caller', async () => {
    store();
    const by = { kind: 'admin' } as never;
    expect(await connections().end('u1', 'platform', { by, audited: true })).toEqual({
      id: 'c1',
      ...{ revocation: 'revoked', reply: { status: 200 } },
    });
    expect(events).toEqual([['connectionRemoved', { ...REMOVED, by, audited: true }]]);
    expect(planned).toEqual([{ ...REVOCATION, grantVersion: 3 }]);
  });

  test('R119 sends the event even if the storage fails after the grant is deleted', async () => {
    store();
    attempts = [unavailable];
    const pending = { id: 'c1', revocation: 'pending', reply: undefined };
    expect(await connections().end('u1', 'platform')).toEqual(pending);
    vi.spyOn(grants, 'remove').mockImplementationOnce(() => {
      stored = undefined;
      return unavailable();
    });
    expect(await connections().end('u1', 'platform')).toMatchObject({ revocation: 'revoked' });
    expect(events).toMatchObject([
      ['connectionRemoved', { revocation: 'pending' }],
      ['connectionRemoved', REMOVED],
    ]);
    vi.restoreAllMocks();
  });

  test.each([{ id: 'c2' }, { id: undefined }])('R118 by id ends no other connection: %j', async (only) => {
    store();
    expect(await connections().end('u1', 'platform', { only })).toBeUndefined();
    expect([removed, planned, events]).toEqual([[], [], []]);
    expect(await connections().end('u1', 'platform', { only: { id: 'c1' } })).toMatchObject({ id: 'c1' });
  });

  test('R118 by id ends nothing if another connection has replaced it meanwhile', async () => {
    store();
    const first = stored;
    store({ id: 'c2' }, 4);
    const loads = [first, stored];
    vi.spyOn(grants, 'loadStored').mockImplementation(async () => loads.shift());
    writes = [false];
    expect(await connections().end('u1', 'platform', { only: { id: 'c1' } })).toBeUndefined();
    expect([cancelled, events]).toEqual([['plan-1'], []]);
    vi.restoreAllMocks();
  });

  test('R43: starts over if a refresh writes first, and revokes the newer token', async () => {
    store();
    writes = [false, true];
    await connections().end('u1', 'platform');
    expect([planned.length, cancelled]).toEqual([2, ['plan-1']]);
  });

  test('deletes a connection that cannot be read, and revokes nothing', async () => {
    stored = { unreadable: new Error('sealed') as never, version: 3 };
    writes = [false, true];
    expect(await connections().end('u1', 'platform')).toEqual({
      ...{ id: undefined, revocation: 'unconfirmed', reply: undefined },
    });
    expect([planned, cancelled]).toEqual([[], []]);
    expect(events).toEqual([
      ['connectionRemoved', { ...REMOVED, connection: undefined, revocation: 'unconfirmed', reply: undefined }],
    ]);
  });
});
