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
/** An app whose provider does not respond until `hangingResponse` is resolved. */
const HANGING = { ...APP, id: 'hanging' } as ConnectedApp;
const OF_APP = { appId: APP.id, registration: registrationOf(APP) };
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const WEEK_MS = 7 * 24 * HOUR_MS;
/** A second longer than the pause before the first retry. */
const AFTER_FIRST_PAUSE_MS = 31_000;
const CONNECTION_ID = expect.stringMatching(/^cn/);

let directory: string;
let store: Store;
let sealedJson: SealedJson;
let grants: GrantStore;
let now: number;
/** How the provider handles a revocation. */
let outcome: RevocationOutcome;
/** The status of the provider's response, if there is one. */
let status: number | undefined;
let retryAfterSeconds: number | undefined;
/** The tokens that the provider has received. */
let sentTokens: string[];
/** The results of revocations, as the events have them. */
let outcomes: string[];
/** When the provider of the app `HANGING` responds. */
let hangingResponse: Promise<void>;
/** The current apps. */
let apps: ConnectedApp[];
/** The connection of each revocation that ended after the disconnect. */
let endedConnections: unknown[];
/** How many revocations were stored during the last call to the provider. */
let storedDuringCall = 0;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-revocations-'));
  now = 1_800_000_000_000;
  outcome = 'unconfirmed';
  status = undefined;
  retryAfterSeconds = undefined;
  apps = [APP];
  sentTokens = [];
  outcomes = [];
  endedConnections = [];
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
    endedConnections.push(facts.connection);
  },
} as unknown as Events;

const findApp = (id: string) => apps.find((app) => app.id === id);

/** The parts of another process, which shares only the store. */
const revocations = () =>
  createRevocations({
    store,
    sealedJson,
    grants,
    events,
    clock: () => now,
    random: () => 0.5,
    findApp,
    provider: {
      async revoke(app: ConnectedApp, token: string) {
        sentTokens.push(token);
        if (app.id === HANGING.id) await hangingResponse;
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
const retryDueAfter = async (milliseconds: number) => {
  now += milliseconds;
  await revocations().retryDue();
};

test('R52: the connection ends at once, and another process retries a failed revocation until it is confirmed', async () => {
  await connect('rt1');
  const ended = await connections().end('u1', APP.id);
  expect(ended).toEqual({ id: CONNECTION_ID, revocation: 'pending' });
  expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
  expect(await revocations().pendingOf('u1')).toMatchObject([
    { app: 'platform', connection: ended?.id, attemptCount: 1 },
  ]);

  await retryDueAfter(29_000);
  expect(sentTokens).toEqual(['rt1']);

  await retryDueAfter(2_000);
  expect(sentTokens).toEqual(['rt1', 'rt1']);

  await retryDueAfter(59_000);
  expect(sentTokens).toHaveLength(2);
  expect(outcomes).toEqual(['pending']);

  outcome = 'revoked';
  await retryDueAfter(2_000);
  expect(sentTokens).toHaveLength(3);
  expect([outcomes, endedConnections]).toEqual([['pending', 'confirmed'], [ended?.id]]);
  expect(await revocations().pendingOf('u1')).toEqual([]);
  expect((await revocations().page({ limit: 9 })).items).toEqual([]);
});

test('R52: the result has the provider’s response, if there was one', async () => {
  await connect('rt1');
  expect(await connections().end('u1', APP.id)).toEqual({ id: CONNECTION_ID, revocation: 'pending' });

  status = 500;
  await connect('rt2');

  expect(await connections().end('u1', APP.id)).toEqual({
    id: CONNECTION_ID,
    revocation: 'pending',
    reply: { status: 500 },
  });

  outcome = 'revoked';
  status = 200;
  await connect('rt3');

  expect(await connections().end('u1', APP.id)).toEqual({
    id: CONNECTION_ID,
    revocation: 'revoked',
    reply: { status: 200 },
  });
});

test('R52: after a kill between storing the request and deleting the grant, a later run finishes both', async () => {
  await connect('rt1');
  const stored = await grants.loadStored('u1', APP.id);
  const request = { userId: 'u1', ...OF_APP, token: 'rt1', hint: 'refresh_token' as const };
  await revocations().plan({ ...request, grantVersion: stored?.version });
  outcome = 'revoked';
  await retryDueAfter(AFTER_FIRST_PAUSE_MS);

  expect(sentTokens).toEqual(['rt1']);
  expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
});

/** Plans a revocation of the connection, like a disconnect whose next step failed. */
async function planRevocationOfGrant(): Promise<void> {
  const stored = await grants.loadStored('u1', APP.id);
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  const { refreshToken: token = '' } = stored.grant;
  await revocations().plan({
    userId: 'u1',
    ...OF_APP,
    grantVersion: stored.version,
    token,
    hint: 'refresh_token',
  });
  now += 1_000;
}

test('R52: after such a kill, a grant that was rewritten since is deleted as well, and its token is revoked', async () => {
  await connect('rt1');
  await planRevocationOfGrant();
  const stored = await grants.loadStored('u1', APP.id);
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  await grants.save(stored.grant, stored.version);
  outcome = 'revoked';
  await retryDueAfter(AFTER_FIRST_PAUSE_MS);

  expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
  expect(sentTokens).toEqual(['rt1']);
});

test('R43, R52: after such a kill, the newer token is revoked if a refresh was stored since', async () => {
  await connect('rt1');
  await planRevocationOfGrant();
  const stored = await grants.loadStored('u1', APP.id);
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  await grants.save({ ...stored.grant, refreshToken: 'rt2', refreshedBy: 7 }, stored.version);
  outcome = 'revoked';
  await retryDueAfter(AFTER_FIRST_PAUSE_MS);

  expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
  expect(sentTokens).toEqual(['rt2']);
});

test.each(['rt2', undefined])(
  'R52: if the user has connected again since (new refresh token: %s), the connection stays, and nothing is revoked',
  async (newToken) => {
    await connect('rt1');
    await planRevocationOfGrant();
    await connect(newToken);
    await retryDueAfter(AFTER_FIRST_PAUSE_MS);

    expect(await grants.loadStored('u1', APP.id)).toMatchObject({ grant: { refreshToken: newToken ?? 'rt1' } });
    expect(sentTokens).toEqual([]);
    expect(await revocations().pendingOf('u1')).toEqual([]);
  },
);

test('R52: if the grant was deleted, its token is revoked even after the user has connected again', async () => {
  await connect('rt1');
  await planRevocationOfGrant();
  const stored = await grants.loadStored('u1', APP.id);
  await grants.remove('u1', APP.id, stored?.version ?? 0);
  now += 1_000;
  await connect('rt2');
  outcome = 'revoked';
  await retryDueAfter(AFTER_FIRST_PAUSE_MS);

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
  await retryDueAfter(AFTER_FIRST_PAUSE_MS);

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
  await retryDueAfter(WEEK_MS + MINUTE_MS);

  expect(outcomes).toEqual(['pending', 'abandoned']);
  expect(await revocations().pendingOf('u1')).toEqual([]);
});

test('R52: connecting another account revokes the earlier grant; connecting the same account again does not', async () => {
  outcome = 'revoked';
  await connect('rt1');
  await connect('rt2');

  expect(sentTokens).toEqual([]);

  await connect('rt3', 'another-account');
  expect(sentTokens).toEqual(['rt2']);
});

test.each([
  { consent: 'second', firstSubject: 's1', secondSubject: null },
  { consent: 'first', firstSubject: null, secondSubject: 's1' },
])(
  'R52: revokes nothing if the $consent consent does not name its account, since it may be the same',
  async ({ firstSubject, secondSubject }) => {
    outcome = 'revoked';
    await connect('rt0', firstSubject);
    await connect('rt1', secondSubject);

    expect(sentTokens).toEqual([]);
  },
);

test('R43, R52: the revocation of a token of no grant is stored before the provider is called, so a kill does not lose it', async () => {
  const { revokeUnowned: revoke } = revocations();
  const readPage = () => revocations().page({ limit: 9 });

  expect(await revoke(APP, 'rt-late', 'refresh_token')).toEqual({ outcome: 'unconfirmed' });
  expect([sentTokens, storedDuringCall]).toEqual([['rt-late'], 1]);
  expect((await readPage()).items).toMatchObject([{ userId: 'nobody', attemptCount: 1 }]);

  outcome = 'revoked';
  expect(await revoke(APP, 'rt-later', 'refresh_token')).toEqual({ outcome: 'revoked' });
  expect((await readPage()).items).toHaveLength(1);
});

test('R52: the pauses double up to an hour', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  const pausesInSeconds: number[] = [];
  for (let attempt = 1; attempt <= 9; attempt += 1) {
    const [pending] = await revocations().pendingOf('u1');
    expect(pending?.attemptCount).toBe(attempt);
    const pauseMs = (pending?.nextAt ?? 0) - now;
    pausesInSeconds.push(pauseMs / 1_000);
    await retryDueAfter(pauseMs);
  }

  expect(pausesInSeconds).toEqual([30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
  expect(sentTokens).toHaveLength(10);
});

test('R52: a provider that says when to call again is not called earlier', async () => {
  status = 429;
  retryAfterSeconds = 400;
  await connect('rt1');
  await connections().end('u1', APP.id);

  const [firstAttempt] = await revocations().pendingOf('u1');
  expect((firstAttempt?.nextAt ?? 0) - now).toBe(400_000);

  retryAfterSeconds = 1;
  await retryDueAfter(400_000);

  const [secondAttempt] = await revocations().pendingOf('u1');
  expect((secondAttempt?.nextAt ?? 0) - now).toBe(60_000);
});

test('R52: pending revocations are listed with the last response, page by page, until each has ended', async () => {
  status = 503;
  await connect('rt1');
  const disconnectedAt = now;
  await connections().end('u1', APP.id);
  now += 1_000;
  const { revokeUnowned, page } = revocations();
  await revokeUnowned(APP, 'rt2', 'access_token');

  const firstPage = await page({ limit: 1 });
  expect(firstPage.items).toMatchObject([
    { userId: 'u1', app: 'platform', since: disconnectedAt, reply: { status: 503 } },
  ]);

  const secondPage = await page({ limit: 1, after: firstPage.next });
  expect(secondPage.items).toMatchObject([{ userId: 'nobody', app: 'platform', since: disconnectedAt + 1_000 }]);
  expect(JSON.stringify([firstPage, secondPage])).not.toContain('rt');
});

test('R52: a revocation is abandoned if its app no longer exists, or its record cannot be opened', async () => {
  const plan = (appId: string) =>
    revocations().plan({ userId: 'u1', ...OF_APP, appId, token: 'rt', hint: 'refresh_token' });
  await plan('gone');
  const id = await plan(APP.id);
  await store.write([{ put: keys.revocation('u1', id), value: 'not sealed' }]);

  expect(await revocations().pendingOf('u1')).toMatchObject([{ app: 'gone' }]);

  await retryDueAfter(AFTER_FIRST_PAUSE_MS);
  expect([sentTokens, outcomes]).toEqual([[], ['abandoned', 'abandoned']]);
  expect(await revocations().pendingOf('u1')).toEqual([]);

  await retryDueAfter(AFTER_FIRST_PAUSE_MS);
  expect(outcomes).toHaveLength(2);
});

test('R116, R52: a token of an earlier registration of the app is sent only once the app is changed back', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  outcome = 'revoked';
  for (const changes of [{ issuer: 'https://other.test' }, { clientId: 'c2' }, { apiBaseUrl: 'https://other.test' }]) {
    apps = [{ ...APP, ...changes }];
    await retryDueAfter(2 * HOUR_MS);
  }

  expect([sentTokens, outcomes]).toEqual([['rt1'], ['pending']]);
  expect(await revocations().pendingOf('u1')).toMatchObject([{ app: 'platform', attemptCount: 4 }]);

  apps = [APP];
  await retryDueAfter(2 * HOUR_MS);
  expect([sentTokens, outcomes]).toEqual([
    ['rt1', 'rt1'],
    ['pending', 'confirmed'],
  ]);
});

test('R116, R52: a revocation of an earlier registration is abandoned after a week', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  apps = [{ ...APP, clientId: 'c2' }];
  await retryDueAfter(WEEK_MS);

  expect(outcomes).toEqual(['pending']);

  await retryDueAfter(2 * HOUR_MS);
  expect(outcomes).toEqual(['pending', 'abandoned']);
});

test('R132, R52: any number of revocations at a provider that hangs delay no other revocations', async () => {
  const { promise: response, resolve: respond } = Promise.withResolvers<void>();
  hangingResponse = response;
  apps = [APP, HANGING];
  const plan = (app: ConnectedApp, number: number) =>
    revocations().plan({
      userId: `u${number}`,
      appId: app.id,
      registration: registrationOf(app),
      token: `${app.id} ${number}`,
      hint: 'refresh_token' as const,
    });
  for (let number = 0; number < 30; number += 1) await plan(APP, number);
  now += 1;
  // These do not fit into one part of the list, which is read in parts.
  await Promise.all(Array.from({ length: 210 }, (_none, number) => plan(HANGING, number)));
  now += AFTER_FIRST_PAUSE_MS;
  outcome = 'revoked';
  let isRunOver = false;
  const run = revocations().retryDue({ isOver: () => isRunOver });
  await until(() => outcomes.length === 30);

  expect(sentTokens.filter((token) => token.startsWith(HANGING.id))).toHaveLength(1);

  // A revocation that becomes due during the run is not delayed either.
  await plan(APP, 31);
  now += AFTER_FIRST_PAUSE_MS;
  await until(() => outcomes.length === 31);
  isRunOver = true;
  respond();
  await run;
});

test('R52: counts the revocations of an app among the first 1,000, and says if there are more', async () => {
  const { plan, countOf } = revocations();
  const request = { userId: 'u1', ...OF_APP, token: 'rt', hint: 'refresh_token' as const };

  expect(await countOf(APP.id)).toEqual({ count: 0, exact: true });

  for (const appId of [APP.id, 'other', APP.id]) await plan({ ...request, appId });
  await store.write([{ put: keys.revocation('u1', await plan(request)), value: 'not sealed' }]);

  expect(await countOf(APP.id)).toEqual({ count: 2, exact: true });

  const revocationsOfOthers = Array.from({ length: 996 }, (_, number) => ({
    index: keys.revocations,
    add: `["u2","${number}"]`,
    score: now * 2,
  }));
  await store.write(revocationsOfOthers);

  expect(await countOf(APP.id)).toEqual({ count: 2, exact: true });

  await store.write([{ index: keys.revocations, add: '["u3","0"]', score: now }]);
  expect(await countOf(APP.id)).toEqual({ count: 2, exact: false });
});

test('R52: a revocation without a record is dropped from the list, and nothing is called', async () => {
  const id = await revocations().plan({ userId: 'u1', ...OF_APP, token: 'rt', hint: 'refresh_token' });
  await store.write([{ delete: keys.revocation('u1', id) }]);
  await retryDueAfter(AFTER_FIRST_PAUSE_MS);

  expect((await store.page(keys.revocations, { limit: 9 })).items).toEqual([]);
  expect([sentTokens, outcomes]).toEqual([[], []]);
});

test('R52: a revocation that was cancelled, or has ended in another process, calls no provider', async () => {
  const { plan, cancel, attempt } = revocations();
  const id = await plan({ userId: 'u1', ...OF_APP, token: 'rt', hint: 'refresh_token' });
  await cancel('u1', id);

  expect(await attempt(APP, 'u1', id)).toEqual({ outcome: 'revoked' });

  await retryDueAfter(AFTER_FIRST_PAUSE_MS);
  expect([sentTokens, await revocations().pendingOf('u1')]).toEqual([[], []]);
});

test('R52: a revocation is still retried when it is exactly a week old', async () => {
  await connect('rt1');
  await connections().end('u1', APP.id);
  await retryDueAfter(WEEK_MS);

  expect(sentTokens).toHaveLength(2);
  expect(outcomes).toEqual(['pending']);
});

describe('a caller that does not wait for the provider', () => {
  const planRevocation = () => revocations().plan({ userId: 'u1', ...OF_APP, token: 'rt1', hint: 'refresh_token' });

  test('R52: gets "pending", and an event follows when the revocation is confirmed', async () => {
    outcome = 'revoked';
    const { attempt, pendingOf } = revocations();

    expect(await attempt(APP, 'u1', await planRevocation(), AbortSignal.abort())).toEqual({ outcome: 'pending' });

    await until(() => outcomes.length > 0);
    expect(outcomes).toEqual(['confirmed']);
    expect(await pendingOf('u1')).toEqual([]);
  });

  test('R52: gets the result of a provider that responds in time', async () => {
    outcome = 'revoked';
    status = 200;
    const { attempt } = revocations();
    const waitLimit = new AbortController();

    expect(await attempt(APP, 'u1', await planRevocation(), waitLimit.signal)).toEqual({
      outcome: 'revoked',
      reply: { status: 200 },
    });

    waitLimit.abort();
    expect(outcomes).toEqual([]);
  });

  test('R52: causes no event if the provider did not confirm', async () => {
    const { attempt, pendingOf } = revocations();
    const id = await planRevocation();
    await attempt(APP, 'u1', id, AbortSignal.abort());
    await until(async () => (await pendingOf('u1'))[0]?.attemptCount === 1);

    expect(outcomes).toEqual([]);
  });
});

test('R43: a token of no grant is revoked even if the revocation cannot be stored', async () => {
  outcome = 'revoked';
  status = 200;
  const { revokeUnowned } = revocations();
  vi.spyOn(store, 'write').mockRejectedValue(new Error('disk full'));

  expect(await revokeUnowned(APP, 'rt-late', 'refresh_token')).toEqual({ outcome: 'revoked', reply: { status: 200 } });
  expect(sentTokens).toEqual(['rt-late']);

  vi.restoreAllMocks();
});

test('R52: without a revocation endpoint, nothing is pending; without its app, the revocation of a grant is unconfirmed', async () => {
  outcome = 'unsupported';
  await connect('rt1');

  expect(await connections().end('u1', APP.id)).toEqual({ id: CONNECTION_ID, revocation: 'unsupported' });
  expect(await revocations().pendingOf('u1')).toEqual([]);

  await connect('rt2');
  const withoutApps = createConnections({
    grants,
    revocations: revocations(),
    links: NO_LINKS,
    findApp: () => undefined,
    isRegistered,
    checkSeconds: 86_400,
    events,
    clock: () => now,
  });

  expect(await withoutApps.end('u1', APP.id)).toEqual({
    id: CONNECTION_ID,
    revocation: 'unconfirmed',
    reply: undefined,
  });
  expect(await withoutApps.end('u1', APP.id)).toBeUndefined();
  expect([sentTokens, outcomes]).toEqual([['rt1'], ['unsupported', 'unconfirmed']]);
});

test('R43: tokens that were not stored are revoked, unless the user has a connection that would end with them', async () => {
  outcome = 'revoked';
  const discardTokens = (userId: string, account?: { id?: string; subject?: string; issuer?: string }) =>
    connections().discard(userId, APP, { accessToken: 'at9', refreshToken: 'rt9' } as TokenResponse, account);
  await connect('rt1');
  await discardTokens('u1');
  await discardTokens('u2', { id: 'u1' });

  expect(await revocations().pendingOf('u2')).toEqual([]);

  await discardTokens('u2');
  await until(() => sentTokens.length > 0);
  expect(sentTokens).toEqual(['rt9']);

  // The connection of another account does not end with these tokens.
  await discardTokens('u1', { subject: 'another', issuer: APP.issuer });
  await until(() => sentTokens.length > 1);
  expect(sentTokens).toEqual(['rt9', 'rt9']);
});
