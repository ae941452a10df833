/** A connection as read from its grant, and the events when one is created or ended. */
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { createConnections } from '../../../src/gatehouse/grants/connections.ts';
import type { Grant, StoredGrant } from '../../../src/gatehouse/grants/grant.ts';
import type { GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import type { RefreshFailure } from '../../../src/gatehouse/grants/refresh-failure.ts';
import { AppError } from '../../../src/shared/errors.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { PLATFORM } from '../../support/apps.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;
const APP = { ...PLATFORM, scopes: ['openid', 'mail'] } as ConnectedApp;

let storedGrant: StoredGrant | undefined;
let lastUsedAt: number | undefined;
/** Whether each of the next writes succeeds. Later ones do. */
let writeResults: boolean[];
/** The parameters of each call of `save` and of `remove`. */
let saveCalls: unknown[][];
let removeCalls: unknown[][];
let plannedRevocations: unknown[];
let cancelledRevocations: unknown[];
let events: [name: string, facts: unknown][];
/** Whether the connect link is open. */
let isOpen: boolean;
/** Whether the registration is still that of a current app. */
let isRegistered: boolean;
/** How the next calls of the storage fail. Later ones respond. */
let registrationLookUps: (() => Promise<boolean>)[];
let revocationAttempts: (() => Promise<never>)[];
beforeEach(() => {
  storedGrant = undefined;
  lastUsedAt = undefined;
  isOpen = true;
  isRegistered = true;
  writeResults = [];
  saveCalls = [];
  removeCalls = [];
  plannedRevocations = [];
  cancelledRevocations = [];
  events = [];
  registrationLookUps = [];
  revocationAttempts = [];
});

const grantOf = (changes: Partial<Grant> = {}): Grant => ({
  id: 'c1',
  userId: 'u1',
  appId: APP.id,
  registration: registrationOf(APP),
  accessToken: 'at1',
  refreshToken: 'rt1',
  scopes: ['openid'],
  requestedScopes: ['openid', 'mail'],
  declinedScopes: ['files'],
  account: { subject: 's1' },
  obtainedAt: NOW - HOUR,
  expiresAt: NOW + HOUR,
  connectedAt: NOW - 5 * HOUR,
  consentedAt: NOW - 5 * HOUR,
  failure: undefined,
  refresh: undefined,
  ...changes,
});
const REVOCATION = {
  userId: 'u1',
  appId: APP.id,
  connection: 'c1',
  registration: registrationOf(APP),
  token: 'rt1',
  hint: 'refresh_token',
};
const storeGrant = (changes: Partial<Grant> = {}, version = 3) => {
  storedGrant = { grant: grantOf(changes), version };
};
const failure = (changes: Partial<RefreshFailure> = {}): RefreshFailure => ({
  kind: 'passing',
  cause: 'provider_unavailable',
  since: NOW - 9,
  failures: 1,
  retryAt: NOW,
  reason: 'status_503',
  ...changes,
});

const grants = {
  load: async () => storedGrant,
  loadStored: async () => storedGrant,
  lastUse: async () => lastUsedAt,
  list: async () => (storedGrant ? [{ appId: 'platform', stored: storedGrant, lastUsedAt }] : []),
  async save(...parameters: unknown[]) {
    saveCalls.push(parameters);
    return (writeResults.shift() ?? true) ? 9 : undefined;
  },
  async remove(...parameters: unknown[]) {
    removeCalls.push(parameters);
    return writeResults.shift() ?? true;
  },
} as unknown as GrantStore;

const failUnavailable = () => Promise.reject(new AppError('storage_unavailable'));

const connections = (findApp: (id: string) => ConnectedApp | undefined = () => APP) =>
  createConnections({
    grants,
    revocations: {
      async plan(request) {
        plannedRevocations.push(request);
        return `plan-${plannedRevocations.length}`;
      },
      cancel: async (_userId, id) => void cancelledRevocations.push(id),
      attempt: async () => revocationAttempts.shift()?.() ?? { outcome: 'revoked', reply: { status: 200 } },
      revokeUnowned: async () => ({ outcome: 'revoked' }),
      pendingOf: async () => [],
    },
    links: { isOpen: async () => isOpen },
    findApp,
    isRegistered: async () => registrationLookUps.shift()?.() ?? isRegistered,
    checkSeconds: 3_600,
    events: new Proxy(
      {},
      { get: (_target, name) => (facts: unknown) => void events.push([String(name), facts]) },
    ) as Events,
    clock: () => NOW,
  });
const findConnection = () => connections().find('u1', 'platform');

describe('a connection', () => {
  test('has the facts of its grant, alone and in a list', async () => {
    storeGrant({ apiBaseUrl: 'https://eu.api.test' });
    lastUsedAt = NOW - 7;
    const expected = {
      id: 'c1',
      app: 'platform',
      health: 'active',
      cause: undefined,
      reason: undefined,
      scopes: ['openid'],
      requestedScopes: ['openid', 'mail'],
      declinedScopes: ['files'],
      account: { subject: 's1' },
      apiBaseUrl: 'https://eu.api.test',
      connectedAt: NOW - 5 * HOUR,
      refreshedAt: NOW - HOUR,
      checkedAt: NOW - HOUR,
      lastUsedAt: NOW - 7,
      notCheckedSince: undefined,
      needsStepUp: false,
    };

    expect(await findConnection()).toEqual(expected);
    expect(await connections().list('u1')).toEqual([expected]);
  });

  test('that cannot be read needs reconnecting', async () => {
    storedGrant = { unreadable: new Error('sealed') as never, version: 3 };
    lastUsedAt = NOW - 7;
    expect(await findConnection()).toEqual({
      id: undefined,
      app: 'platform',
      health: 'reconnect_needed',
      cause: 'unreadable',
      scopes: [],
      account: {},
      requestedScopes: undefined,
      connectedAt: undefined,
      refreshedAt: undefined,
      lastUsedAt: NOW - 7,
    });
  });

  test('that does not exist is not found', async () => {
    expect(await findConnection()).toBeUndefined();
    expect(await connections().list('u1')).toEqual([]);
  });

  test.each<[string, Partial<Grant>, object]>([
    [
      'a failed refresh is active, and has the cause',
      { failure: failure() },
      { health: 'active', cause: 'provider_unavailable', reason: 'status_503' },
    ],
    [
      'an access token that has expired and cannot be renewed needs reconnecting',
      { refreshToken: undefined, expiresAt: NOW },
      { health: 'reconnect_needed', cause: 'access_ended' },
    ],
    [
      'a refusal needs reconnecting, and counts as checked at that time',
      { failure: failure({ kind: 'reconnect_needed', cause: 'grant_refused', reason: undefined }) },
      { health: 'reconnect_needed', cause: 'grant_refused', checkedAt: NOW - 9 },
    ],
    [
      'an import that was not checked has neither a time of a refresh nor of a check',
      { accessToken: '' },
      { refreshedAt: undefined, checkedAt: undefined },
    ],
  ])('with %s', async (_description, changes, expected) => {
    storeGrant(changes);
    expect(await findConnection()).toMatchObject(expected);
  });

  test('R113 has notCheckedSince if a working connection was not checked for two intervals', async () => {
    const longUnchecked = { obtainedAt: NOW - 3 * HOUR };
    storeGrant(longUnchecked);

    expect((await findConnection())?.notCheckedSince).toBe(NOW - 3 * HOUR);

    storeGrant({ ...longUnchecked, refreshToken: undefined, expiresAt: NOW + 1 });
    expect(await findConnection()).toMatchObject({ health: 'expiring', notCheckedSince: NOW - 3 * HOUR });

    storeGrant({ ...longUnchecked, failure: failure({ kind: 'unverified' }) });
    expect((await findConnection())?.notCheckedSince).toBeUndefined();

    storeGrant(longUnchecked);
    lastUsedAt = NOW - 1;

    expect((await findConnection())?.notCheckedSince).toBeUndefined();
  });
});

describe('connecting', () => {
  const response = { accessToken: 'at2', refreshToken: 'rt2', scopes: undefined } as unknown as TokenResponse;
  const connect = (changes: object = {}) =>
    connections().connect({
      userId: 'u1',
      app: APP,
      response,
      scopes: ['openid'],
      account: { subject: 's1' },
      origin: { ip: '192.0.2.1' } as never,
      writesOfUser: async () => ({ writes: [CONDITION] }),
      ...changes,
    });
  const CONDITION = { exists: 'user' };
  const createdEvents = (connection: unknown, changes: object = {}) => [
    'connectionCreated',
    {
      userId: 'u1',
      app: 'platform',
      connection,
      scopes: ['openid'],
      link: undefined,
      origin: { ip: '192.0.2.1' },
      ...changes,
    },
  ];
  const NEWLY_CREATED = createdEvents(expect.stringMatching(/^cn\w{11}$/));

  test('sends an event with the granted scopes, or else the requested ones', async () => {
    expect(await connect()).toBe('connected');

    await connect({ response: { ...response, scopes: ['mail'] } });
    expect(events).toEqual([NEWLY_CREATED, createdEvents(expect.anything(), { scopes: ['mail'] })]);
    expect(saveCalls[0]?.slice(1)).toEqual([0, { writes: [CONDITION], beside: [] }]);
  });

  test('sends a recovery event, with the origin, if the earlier connection was unverified', async () => {
    storeGrant({ failure: failure({ kind: 'unverified' }) });
    await connect();
    storeGrant({ failure: failure() });
    await connect();
    const facts = { userId: 'u1', app: 'platform', connection: 'c1', origin: { ip: '192.0.2.1' } };
    const recoveryEvent = ['connectionRecovered', facts];

    expect(events).toEqual([createdEvents('c1'), recoveryEvent, createdEvents('c1')]);
    expect(plannedRevocations).toEqual([]);
  });

  test('revokes the replaced grant of another account', async () => {
    storeGrant({ account: { subject: 's2' } });
    await connect();
    expect(plannedRevocations).toEqual([REVOCATION]);
    expect(events).toEqual([NEWLY_CREATED]);
  });

  test('R118 keeps the id of an earlier connection of the same account, even if another write comes first', async () => {
    storeGrant();
    writeResults = [false, true];
    await connect();
    storeGrant({}, 4);
    await connect({ account: { subject: 's2' } });
    storeGrant({ registration: registrationOf({ ...APP, clientId: 'c2' }) });
    await connect();
    const ids = saveCalls.map(([grant]) => (grant as Grant).id);

    expect(ids).toEqual(['c1', 'c1', expect.stringMatching(/^cn/), expect.stringMatching(/^cn/)]);
    expect(ids[2]).not.toBe(ids[3]);
  });

  test('is tried again, and sends one event, if another write comes first', async () => {
    storeGrant();
    writeResults = [false, true];

    expect(await connect()).toBe('connected');
    expect(saveCalls).toHaveLength(2);
    expect(saveCalls[0]?.[1]).toBe(3);
    expect(events).toHaveLength(1);
  });

  test('uses up a connect link, and stores nothing if the link was used before', async () => {
    expect(await connect({ link: 'l1' })).toBe('connected');

    const ticket = keys.connectTicket('u1', 'l1');
    expect(saveCalls[0]?.[2]).toEqual({ writes: [CONDITION, { exists: ticket }, { delete: ticket }], beside: [] });
    expect(events).toEqual([createdEvents(expect.anything(), { link: 'l1' })]);

    writeResults = [false];
    isOpen = false;

    expect(await connect({ link: 'l1' })).toBe('link_ended');
    expect(events).toHaveLength(1);

    writeResults = [false, true];
    isOpen = true;

    expect(await connect({ link: 'l1' })).toBe('connected');
  });

  test('stores nothing for a deleted user, even if the deletion is seen only at the second write', async () => {
    expect(await connect({ writesOfUser: async () => 'gone' })).toBe('user_gone');
    expect(saveCalls).toEqual([]);

    writeResults = [false];
    const writesOfUser = async (isFirst: boolean) => (isFirst ? { writes: [CONDITION] } : 'gone');

    expect(await connect({ writesOfUser })).toBe('user_gone');
    expect(saveCalls).toHaveLength(1);
    expect(events).toEqual([]);
  });

  test('R119 sends the event if the grant is stored although the storage responded too late', async () => {
    vi.spyOn(grants, 'save').mockImplementationOnce(async (grant) => {
      storedGrant = { grant, version: 7 };
      return failUnavailable();
    });
    expect(await connect()).toBe('connected');
    expect(events).toEqual([NEWLY_CREATED]);
    expect(saveCalls.map(([, ifVersion]) => ifVersion)).toEqual([7]);

    vi.spyOn(grants, 'save').mockImplementationOnce(failUnavailable);
    await expect(connect({ response: { ...response, accessToken: 'at3' } })).rejects.toMatchObject({
      code: 'storage_unavailable',
    });
    expect(events).toHaveLength(1);

    vi.restoreAllMocks();
  });

  test('R117 removes the connection if its app was deleted, even if the storage does not respond at first', async () => {
    registrationLookUps = [failUnavailable, failUnavailable];
    isRegistered = false;

    expect(await connect()).toBe('app_gone');
    expect(removeCalls).toEqual([['u1', 'platform', 9]]);
    expect(events).toEqual([]);

    registrationLookUps = [failUnavailable];
    isRegistered = true;

    expect(await connect()).toBe('connected');
    expect(events).toEqual([NEWLY_CREATED]);
  });

  test('R117 restores the earlier connection of a deleted app, even if the storage responds too late', async () => {
    storeGrant();
    isRegistered = false;
    const earlierGrant = grantOf();
    vi.spyOn(grants, 'save')
      .mockImplementationOnce(async () => 9)
      .mockImplementationOnce(async () => {
        storedGrant = { grant: earlierGrant, version: 10 };
        return failUnavailable();
      })
      .mockImplementationOnce(async () => undefined);
    writeResults = [false];

    expect(await connect()).toBe('app_gone');
    // The removal of the new connection fails, so the restored grant stays.
    expect(removeCalls).toEqual([['u1', 'platform', 9]]);
    expect(storedGrant?.version).toBe(10);

    vi.restoreAllMocks();
  });

  test('R117 does not restore the earlier connection of a user who is deleted in between', async () => {
    storeGrant();
    isRegistered = false;
    const writesOfUser = async (isFirst: boolean) => (isFirst ? { writes: [CONDITION] } : 'gone');

    expect(await connect({ writesOfUser })).toBe('app_gone');
    expect(removeCalls).toEqual([['u1', 'platform', 9]]);
    expect(saveCalls).toHaveLength(1);
  });

  test('removes the connection of an app that was deleted in between, and sends no event', async () => {
    isRegistered = false;
    expect(await connect()).toBe('app_gone');
    expect(removeCalls).toEqual([['u1', 'platform', 9]]);
    expect(events).toEqual([]);
  });

  test('removes the connection of an app that was deleted in between, even if it was rewritten', async () => {
    isRegistered = false;
    writeResults = [true, false, true];
    const writesOfUser = async () => {
      storeGrant({}, 11);
      return { writes: [CONDITION] };
    };

    expect(await connect({ writesOfUser })).toBe('app_gone');
    expect(removeCalls).toEqual([
      ['u1', 'platform', 9],
      ['u1', 'platform', 11],
    ]);
  });

  test('R117 restores the earlier connection if the app leaves the file while the user reconnects', async () => {
    storeGrant();
    isRegistered = false;

    expect(await connect({ response: { accessToken: 'at2', refreshToken: 'rt2' } })).toBe('app_gone');
    expect(removeCalls).toEqual([]);
    expect(saveCalls.at(-1)?.slice(0, 2)).toEqual([grantOf(), 9]);
    expect(events).toEqual([]);
  });

  test('R117 leaves a connection of another registration if the app has moved, even if it moves after the first check', async () => {
    const registration = registrationOf({ ...APP, issuer: 'https://elsewhere.test' });
    storeGrant({ registration });
    isRegistered = false;

    expect(await connect()).toBe('app_gone');
    expect([saveCalls, removeCalls, events]).toEqual([[], [], []]);

    isRegistered = true;
    writeResults = [true, true];
    const writesOfUser = async () => {
      isRegistered = false;
      return { writes: [CONDITION] };
    };

    expect(await connect({ writesOfUser })).toBe('app_gone');
    expect(removeCalls).toEqual([]);
    expect(saveCalls.at(-1)?.slice(0, 2)).toEqual([grantOf({ registration }), 9]);
    expect(events).toEqual([]);
  });
});

describe('disconnecting', () => {
  const REMOVED = { userId: 'u1', app: 'platform', connection: 'c1', revocation: 'revoked', reply: { status: 200 } };

  test('sends an event with the result of the revocation and with the caller', async () => {
    storeGrant();
    const by = { kind: 'admin' } as never;

    expect(await connections().end('u1', 'platform', { by, audited: true })).toEqual({
      id: 'c1',
      revocation: 'revoked',
      reply: { status: 200 },
    });
    expect(events).toEqual([['connectionRemoved', { ...REMOVED, by, audited: true }]]);
    expect(plannedRevocations).toEqual([{ ...REVOCATION, grantVersion: 3 }]);
  });

  test('R119 sends the event even if the storage fails after the grant is deleted', async () => {
    storeGrant();
    revocationAttempts = [failUnavailable];
    const pending = { id: 'c1', revocation: 'pending', reply: undefined };

    expect(await connections().end('u1', 'platform')).toEqual(pending);

    vi.spyOn(grants, 'remove').mockImplementationOnce(() => {
      storedGrant = undefined;
      return failUnavailable();
    });
    expect(await connections().end('u1', 'platform')).toMatchObject({ revocation: 'revoked' });
    expect(events).toMatchObject([
      ['connectionRemoved', { revocation: 'pending' }],
      ['connectionRemoved', REMOVED],
    ]);

    vi.restoreAllMocks();
  });

  test.each([{ id: 'c2' }, { id: undefined }])('R118 by id ends no other connection: %j', async (only) => {
    storeGrant();
    expect(await connections().end('u1', 'platform', { only })).toBeUndefined();
    expect([removeCalls, plannedRevocations, events]).toEqual([[], [], []]);
    expect(await connections().end('u1', 'platform', { only: { id: 'c1' } })).toMatchObject({ id: 'c1' });
  });

  test('R118 by id ends nothing if another connection replaces it after it was read', async () => {
    storeGrant();
    const replacedGrant = storedGrant;
    storeGrant({ id: 'c2' }, 4);
    const grantsInTurn = [replacedGrant, storedGrant];
    vi.spyOn(grants, 'loadStored').mockImplementation(async () => grantsInTurn.shift());
    writeResults = [false];

    expect(await connections().end('u1', 'platform', { only: { id: 'c1' } })).toBeUndefined();
    expect(cancelledRevocations).toEqual(['plan-1']);
    expect(events).toEqual([]);

    vi.restoreAllMocks();
  });

  test('R43: plans a new revocation in place of the first one if a refresh writes first', async () => {
    storeGrant();
    writeResults = [false, true];
    await connections().end('u1', 'platform');

    expect(plannedRevocations).toHaveLength(2);
    expect(cancelledRevocations).toEqual(['plan-1']);
  });

  test('deletes a connection that cannot be read, and revokes nothing', async () => {
    storedGrant = { unreadable: new Error('sealed') as never, version: 3 };
    writeResults = [false, true];

    expect(await connections().end('u1', 'platform')).toEqual({
      id: undefined,
      revocation: 'unconfirmed',
      reply: undefined,
    });
    expect([plannedRevocations, cancelledRevocations]).toEqual([[], []]);
    expect(events).toEqual([
      ['connectionRemoved', { ...REMOVED, connection: undefined, revocation: 'unconfirmed', reply: undefined }],
    ]);
  });
});
