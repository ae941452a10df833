/**
 * Revocations that a provider does not confirm: stored, retried with growing pauses, and abandoned after a week (R52).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { createConnections } from '../../../src/gatehouse/grants/connections.ts';
import { createGrantStore, type GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createRevocations } from '../../../src/gatehouse/grants/revocations.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { RevocationOutcome } from '../../../src/shared/provider/provider-reply.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson, type SealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { PLATFORM } from '../../support/apps.ts';
import { until } from '../../support/until.ts';

const APP = { ...PLATFORM, name: 'Platform', scopes: ['openid'] } as ConnectedApp;
/** An app whose provider does not respond until `hanging` is resolved. */
const HANGING = { ...APP, id: 'hanging' } as ConnectedApp;
const OF_APP = { appId: APP.id, registration: registrationOf(APP) };
const MINUTE = 60_000;
const ID = expect.stringMatching(/^cn/);

let directory: string;
let store: Store;
let sealedJson: SealedJson;
let grants: GrantStore;
let now: number;
let outcome: RevocationOutcome;
/** The status of the provider's response, if there is one. */
let status: number | undefined;
let retryAfterSeconds: number | undefined;
let sentTokens: string[];
let outcomes: string[];
let hanging: Promise<void>;
/** The current apps. */
let apps: ConnectedApp[];
/** The connection of each revocation that ended later. */
let confirmed: unknown[];
/** How many revocations were stored during the last call to the provider. */
let storedDuringCall = 0;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-revocations-'));
  [now, outcome, status, apps] = [1_800_000_000_000, 'unconfirmed', undefined, [APP]];
  retryAfterSeconds = undefined;
  [sentTokens, outcomes, confirmed] = [[], [], []];
  store = await createSqliteStore({ directory, clock: () => now });
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  sealedJson = createSealedJson(createSealer(parsed.keys));
  grants = createGrantStore({ store, sealedJson, clock: () => now });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const events = {
  connectionCreated: () => undefined,
  connectionRemoved: ({ revocation }: { revocation: string }) => void outcomes.push(revocation),
  revocationEnded(facts: { outcome: string; connection: unknown }) {
    outcomes.push(facts.outcome);
    confirmed.push(facts.connection);
  },
} as unknown as Events;

const findApp = (id: string) => apps.find((app) => app.id === id);

/** The parts of another process, which shares only the store. */
const revocations = () =>
  createRevocations({
    ...{
      store,
      sealedJson,
      grants,
      events,
      clock: () => now,
      random: () => 0.5,
      findApp,
    },
    provider: {
      async revoke(app: ConnectedApp, token: string) {
        sentTokens.push(token);
        if (app.id === HANGING.id) await hanging;
        storedDuringCall = (await store.page(keys.revocations, { limit: 9 })).items.length;
        return { outcome, ...(status === undefined ? {} : { reply: { status, retryAfterSeconds } }) };
      },
    },
  });
const isRegistered = async () => true;
const NO_LINKS = { isOpen: async () => false };
const connections = () =>
  createConnections({
    grants,
    revocations: revocations(),
    links: NO_LINKS,
    findApp,
    isRegistered,
    checkSeconds: 86_400,
    events,
    clock: () => now,
  });

/** @param subject null if the provider does not name it */
const connect = (refreshToken: string | undefined, subject: string | null = 's1') =>
  connections().connect({
    userId: 'u1',
    app: APP,
    response: { accessToken: `at-${refreshToken}`, refreshToken } as unknown as TokenResponse,
    scopes: ['openid'],
    account: subject === null ? {} : { subject },
    writesOfUser: async () => ({ writes: [{ delete: keys.erasedUser('u1'), ifVersion: 0 }] }),
  });
const retryAfter = async (milliseconds: number) => {
  now += milliseconds;
  await revocations().retryDue();
};

test('R52: a failed revocation is pending; the connection ends at once, and another process retries until it is confirmed', async () => {
  await connect('rt1');
  const ended = await connections().end('u1', APP.id);
  expect(ended).toEqual({ id: ID, revocation: 'pending' });
  expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
  expect(await revocations().pendingOf('u1')).toMatchObject([{ app: 'platform', connection: ended?.id, attempts: 1 }]);
  await retryAfter(29_000);
  expect(sentTokens).toEqual(['rt1']);
  await retryAfter(2_000);
  expect(sentTokens).toEqual(['rt1', 'rt1']);
  await retryAfter(59_000);
  expect(sentTokens).toHaveLength(2);
  expect(outcomes).toEqual(['pending']);
  outcome = 'revoked';
  await retryAfter(2_000);
  expect(sentTokens).toHaveLength(3);
  expect([outcomes, confirmed]).toEqual([['pending', 'confirmed'], [ended?.id]]);
  expect(await revocations().pendingOf('u1')).toEqual([]);
  expect((await revocations().page({ limit: 9 })).items).toEqual([]);
});

test('R52: the result has the provider’s response, if there was one', async () => {
  await connect('rt1');
  expect(await connections().end('u1', APP.id)).toEqual({ id: ID, revocation: 'pending' });
  status = 500;
  await connect('rt2');
  expect(await connections().end('u1', APP.id)).toEqual({ id: ID, revocation: 'pending', reply: { status: 500 } });
  [outcome, status] = ['revoked', 200];
  await connect('rt3');
  expect(await connections().end('u1', APP.id)).toEqual({ id: ID, revocation: 'revoked', reply: { status: 200 } });
});

test('R52: after a kill between storing the request and deleting the grant, a later run finishes both', async () => {
  await connect('rt1');
  const stored = await grants.loadStored('u1', APP.id);
  const request = { userId: 'u1', ...OF_APP, token: 'rt1', hint: 'refresh_token' as const };
  await revocations().plan({ ...request, grantVersion: stored?.version });
  outcome = 'revoked';
  await retryAfter(31_000);
  expect(sentTokens).toEqual(['rt1']);
  expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
});

/** Plans a revocation of the connection, like a disconnect whose next step failed. */
async function planned(): Promise<void> {
  const stored = await grants.loadStored('u1', APP.id);
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  const { refreshToken: token = '' } = stored.grant;
  await revocations().plan({
    ...{ userId: 'u1', ...OF_APP, grantVersion: stored.version, token, hint: 'refresh_token' },
  });
  now += 1_000;
}

test('R52: after such a kill, a grant that was rewritten since is deleted as well, before the provider is called', async () => {
  await connect('rt1');
  await planned();
  const stored = await grants.loadStored('u1', APP.id);
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  await grants.save(stored.grant, stored.version);
  outcome = 'revoked';
  await retryAfter(31_000);
  expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
  expect(sentTokens).toEqual(['rt1']);
});

test('R43, R52: revokes the newer token if a refresh was stored in between', async () => {
  await connect('rt1');
  await planned();
  const stored = await grants.loadStored('u1', APP.id);
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  await grants.save({ ...stored.grant, refreshToken: 'rt2', refreshedBy: 7 }, stored.version);
  outcome = 'revoked';
  await retryAfter(31_000);
  expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
  expect(sentTokens).toEqual(['rt2']);
});

test.each(['rt2', undefined])(
  'R52: if the user has connected again by then (%s), the connection stays, and the provider is not called',
  async (token) => {
    await connect('rt1');
    await planned();
    await connect(token);
    await retryAfter(31_000);
    expect(await grants.loadStored('u1', APP.id)).toMatchObject({ grant: { refreshToken: token ?? 'rt1' } });
    expect(sentTokens).toEqual([]);
    expect(await revocations().pendingOf('u1')).toEqual([]);
  },
);

test('R52: a new connection does not keep the earlier token from being revoked', async () => {
  await connect('rt1');
  await planned();
  await grants.remove('u1', APP.id, (await grants.loadStored('u1', APP.id))?.version ?? 0);
  now += 1_000;
  await connect('rt2');
  outcome = 'revoked';
  await retryAfter(31_000);
  expect(await grants.loadStored('u1', APP.id)).toMatchObject({ grant: { refreshToken: 'rt2' } });
  expect(sentTokens).toEqual(['rt1']);
});

test('R52: revoking a replaced token leaves the connection that replaced it', async () => {
  await connect('rt-new');
  await revocations().plan({
    userId: 'u1',
    ...OF_APP,
    token: 'rt-old',
    hint: 'refresh_token',
    grantVersion: undefined,
  });
  outcome = 'revoked';
  await retryAfter(31_000);
  expect(sentTokens).toEqual(['rt-old']);
  expect(await grants.loadStored('u1', APP.id)).toMatchObject({ grant: { refreshToken: 'rt-new' } });
});

test('R44: the token of a pending revocation is sealed', async () => {
  await connect('rt-canary');
  await connections().end('u1', APP.id);
  const [pending] = await revocations().pendingOf('u1');
  const record = await store.get(`revocation:{u1}:${pending?.id}`);
  expect(record?.value).not.toContain('rt-canary');
  expect(record?.value).toMatch(/^eyJ/);
});

test('R52: a revocation is abandoned after a week, with an event', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  await retryAfter(7 * 86_400_000 + MINUTE);
  expect(outcomes).toEqual(['pending', 'abandoned']);
  expect(await revocations().pendingOf('u1')).toEqual([]);
});

test('R52: connecting another account revokes the earlier grant; connecting the same account again does not end the new grant', async () => {
  outcome = 'revoked';
  await connect('rt1');
  await connect('rt2');
  expect(sentTokens).toEqual([]);
  await connect('rt3', 'another-account');
  expect(sentTokens).toEqual(['rt2']);
});

test.each([
  ['now', 's1', null],
  ['before', null, 's1'],
])(
  'R52: revokes nothing if the provider did not name the account %s, since it may be the same',
  async (_when, ...subjects) => {
    outcome = 'revoked';
    for (const [n, subject] of subjects.entries()) await connect(`rt${n}`, subject);
    expect(sentTokens).toEqual([]);
  },
);

test('R43, R52: a token of no grant is stored before the provider is called, so that a kill does not lose it', async () => {
  const { revokeUnowned: revoke } = revocations();
  const page = () => revocations().page({ limit: 9 });
  expect(await revoke(APP, 'rt-late', 'refresh_token')).toEqual({ outcome: 'unconfirmed' });
  expect([sentTokens, storedDuringCall]).toEqual([['rt-late'], 1]);
  expect((await page()).items).toMatchObject([{ userId: 'nobody', attempts: 1 }]);
  outcome = 'revoked';
  expect(await revoke(APP, 'rt-later', 'refresh_token')).toEqual({ outcome: 'revoked' });
  expect((await page()).items).toHaveLength(1);
});

test('R52: the pauses double up to an hour', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  const pauses: number[] = [];
  for (let attempt = 1; attempt <= 9; attempt += 1) {
    const [pending] = await revocations().pendingOf('u1');
    expect(pending?.attempts).toBe(attempt);
    pauses.push(((pending?.nextAt ?? 0) - now) / 1_000);
    await retryAfter((pending?.nextAt ?? 0) - now);
  }
  expect(pauses).toEqual([30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
  expect(sentTokens).toHaveLength(10);
});

test('R52: a provider that says when to call again is not called earlier', async () => {
  [status, retryAfterSeconds] = [429, 400];
  await connect('rt1');
  await connections().end('u1', APP.id);
  const [pending] = await revocations().pendingOf('u1');
  expect((pending?.nextAt ?? 0) - now).toBe(400_000);
  retryAfterSeconds = 1;
  await retryAfter(400_000);
  const [again] = await revocations().pendingOf('u1');
  expect((again?.nextAt ?? 0) - now).toBe(60_000);
});

test('R52: pending revocations are listed with the last response, page by page, until each has ended', async () => {
  status = 503;
  await connect('rt1');
  const began = now;
  await connections().end('u1', APP.id);
  now += 1_000;
  const { revokeUnowned, page } = revocations();
  await revokeUnowned(APP, 'rt2', 'access_token');
  const first = await page({ limit: 1 });
  expect(first.items).toMatchObject([{ userId: 'u1', app: 'platform', since: began, reply: { status: 503 } }]);
  const second = await page({ limit: 1, after: first.next });
  expect(second.items).toMatchObject([{ userId: 'nobody', app: 'platform', since: began + 1_000 }]);
  expect(JSON.stringify([first, second])).not.toContain('rt');
});

test('R52: a revocation is abandoned if its app no longer exists, or its record cannot be opened', async () => {
  const plan = (appId: string) =>
    revocations().plan({ userId: 'u1', ...OF_APP, appId, token: 'rt', hint: 'refresh_token' });
  await plan('gone');
  const id = await plan(APP.id);
  await store.write([{ put: keys.revocation('u1', id), value: 'not sealed' }]);
  expect(await revocations().pendingOf('u1')).toMatchObject([{ app: 'gone' }]);
  await retryAfter(31_000);
  expect([sentTokens, outcomes]).toEqual([[], ['abandoned', 'abandoned']]);
  expect(await revocations().pendingOf('u1')).toEqual([]);
  await retryAfter(31_000);
  expect(outcomes).toHaveLength(2);
});

test('R116, R52: an app that moved gets no token of its earlier registration; it is revoked once the app is changed back', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  outcome = 'revoked';
  for (const moved of [{ issuer: 'https://other.test' }, { clientId: 'c2' }, { apiBaseUrl: 'https://other.test' }]) {
    apps = [{ ...APP, ...moved }];
    await retryAfter(2 * 60 * MINUTE);
  }
  expect([sentTokens, outcomes]).toEqual([['rt1'], ['pending']]);
  expect(await revocations().pendingOf('u1')).toMatchObject([{ app: 'platform', attempts: 4 }]);
  apps = [APP];
  await retryAfter(2 * 60 * MINUTE);
  expect([sentTokens, outcomes]).toEqual([
    ['rt1', 'rt1'],
    ['pending', 'confirmed'],
  ]);
});

test('R116, R52: a revocation of an earlier registration is abandoned after a week', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  apps = [{ ...APP, clientId: 'c2' }];
  await retryAfter(7 * 86_400_000);
  expect(outcomes).toEqual(['pending']);
  await retryAfter(2 * 60 * MINUTE);
  expect(outcomes).toEqual(['pending', 'abandoned']);
});

test('R132, R52: any number of revocations at a provider that hangs delay no other revocations', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  hanging = promise;
  apps = [APP, HANGING];
  const plan = (app: ConnectedApp, at: number) =>
    revocations().plan({
      ...{ userId: `u${at}`, appId: app.id, registration: registrationOf(app) },
      ...{ token: `${app.id} ${at}`, hint: 'refresh_token' as const },
    });
  for (let at = 0; at < 30; at += 1) await plan(APP, at);
  now += 1;
  // More than one part of the list, which is read in parts.
  await Promise.all(Array.from({ length: 210 }, (_none, at) => plan(HANGING, at)));
  now += 31_000;
  outcome = 'revoked';
  let isOver = false;
  const turn = revocations().retryDue({ isOver: () => isOver });
  await until(() => outcomes.length === 30);
  expect(sentTokens.filter((token) => token.startsWith(HANGING.id))).toHaveLength(1);
  // Revocations that become due meanwhile are not delayed either.
  await plan(APP, 31);
  now += 31_000;
  await until(() => outcomes.length === 31);
  isOver = true;
  resolve();
  await turn;
});

test('R52: counts the revocations of an app among the next 1,000', async () => {
  const { plan, countOf } = revocations();
  const request = { userId: 'u1', ...OF_APP, token: 'rt', hint: 'refresh_token' as const };
  expect(await countOf(APP.id)).toEqual({ count: 0, exact: true });
  for (const appId of [APP.id, 'other', APP.id]) await plan({ ...request, appId });
  await store.write([{ put: keys.revocation('u1', await plan(request)), value: 'not sealed' }]);
  expect(await countOf(APP.id)).toEqual({ count: 2, exact: true });
  const others = Array.from({ length: 996 }, (_, at) => ({
    index: keys.revocations,
    add: `["u2","${at}"]`,
    score: now * 2,
  }));
  await store.write(others);
  expect(await countOf(APP.id)).toEqual({ count: 2, exact: true });
  await store.write([{ index: keys.revocations, add: '["u3","0"]', score: now }]);
  expect(await countOf(APP.id)).toEqual({ count: 2, exact: false });
});

test('R52: a revocation without a record is dropped from the list, and nothing is called', async () => {
  const id = await revocations().plan({ userId: 'u1', ...OF_APP, token: 'rt', hint: 'refresh_token' });
  await store.write([{ delete: keys.revocation('u1', id) }]);
  await retryAfter(31_000);
  expect((await store.page(keys.revocations, { limit: 9 })).items).toEqual([]);
  expect([sentTokens, outcomes]).toEqual([[], []]);
});

test('R52: a revocation that was cancelled, or has ended in another process, calls no provider', async () => {
  const { plan, cancel, attempt } = revocations();
  const id = await plan({ userId: 'u1', ...OF_APP, token: 'rt', hint: 'refresh_token' });
  await cancel('u1', id);
  expect(await attempt(APP, 'u1', id)).toEqual({ outcome: 'revoked' });
  await retryAfter(31_000);
  expect([sentTokens, await revocations().pendingOf('u1')]).toEqual([[], []]);
});

test('R52: a revocation is still retried when it is exactly a week old', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  await retryAfter(7 * 86_400_000);
  expect([sentTokens.length, outcomes]).toEqual([2, ['pending']]);
});

describe('a caller that does not wait for the provider', () => {
  const planOne = () => revocations().plan({ userId: 'u1', ...OF_APP, token: 'rt1', hint: 'refresh_token' });

  test('R52: gets "pending", and an event follows at the end', async () => {
    outcome = 'revoked';
    const { attempt, pendingOf } = revocations();
    expect(await attempt(APP, 'u1', await planOne(), AbortSignal.abort())).toEqual({ outcome: 'pending' });
    await until(() => outcomes.length > 0);
    expect(outcomes).toEqual(['confirmed']);
    expect(await pendingOf('u1')).toEqual([]);
  });

  test('R52: gets the result of a provider that responds in time', async () => {
    [outcome, status] = ['revoked', 200];
    const { attempt } = revocations();
    const patience = new AbortController();
    expect(await attempt(APP, 'u1', await planOne(), patience.signal)).toEqual({
      ...{ outcome: 'revoked', reply: { status: 200 } },
    });
    patience.abort();
    expect(outcomes).toEqual([]);
  });

  test('R52: gets no event if the provider did not confirm', async () => {
    const { attempt, pendingOf } = revocations();
    const id = await planOne();
    await attempt(APP, 'u1', id, AbortSignal.abort());
    await until(async () => (await pendingOf('u1'))[0]?.attempts === 1);
    expect(outcomes).toEqual([]);
  });
});

test('R43: without the store, a token of no grant is revoked once', async () => {
  [outcome, status] = ['revoked', 200];
  const { revokeUnowned } = revocations();
  vi.spyOn(store, 'write').mockRejectedValue(new Error('disk full'));
  expect(await revokeUnowned(APP, 'rt-late', 'refresh_token')).toEqual({ outcome: 'revoked', reply: { status: 200 } });
  expect(sentTokens).toEqual(['rt-late']);
  vi.restoreAllMocks();
});

test('R52: without a revocation endpoint nothing is pending; without its app a grant is not revoked', async () => {
  outcome = 'unsupported';
  await connect('rt1');
  expect(await connections().end('u1', APP.id)).toEqual({ id: ID, revocation: 'unsupported' });
  expect(await revocations().pendingOf('u1')).toEqual([]);
  await connect('rt2');
  const withoutApps = createConnections({
    ...{ grants, revocations: revocations(), links: NO_LINKS, findApp: () => undefined, isRegistered },
    ...{ checkSeconds: 86_400, events, clock: () => now },
  });
  expect(await withoutApps.end('u1', APP.id)).toEqual({ id: ID, revocation: 'unconfirmed', reply: undefined });
  expect(await withoutApps.end('u1', APP.id)).toBeUndefined();
  expect([sentTokens, outcomes]).toEqual([['rt1'], ['unsupported', 'unconfirmed']]);
});

test('R43: tokens that were not stored are revoked, unless the user has a connection that would end with them', async () => {
  outcome = 'revoked';
  const discard = (userId: string, account?: { id?: string; subject?: string; issuer?: string }) =>
    connections().discard(userId, APP, { accessToken: 'at9', refreshToken: 'rt9' } as TokenResponse, account);
  await connect('rt1');
  await discard('u1');
  await discard('u2', { id: 'u1' });
  expect(await revocations().pendingOf('u2')).toEqual([]);
  await discard('u2');
  await until(() => sentTokens.length > 0);
  expect(sentTokens).toEqual(['rt9']);
  // A connection of another account does not end with them.
  await discard('u1', { subject: 'another', issuer: APP.issuer });
  await until(() => sentTokens.length > 1);
  expect(sentTokens).toEqual(['rt9', 'rt9']);
});
