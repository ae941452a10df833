/** Grants and sessions of several processes that are slow, stopped, killed, or out of space. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SessionData } from 'express-session';
import { afterAll, afterEach, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { registrationOf } from '../../src/gatehouse/connected-apps/registration.ts';
import { newConnectionId } from '../../src/gatehouse/grants/connection-ids.ts';
import type { Grant } from '../../src/gatehouse/grants/grant.ts';
import { createRefresher, refreshTimes } from '../../src/gatehouse/grants/refresh.ts';
import type { Events } from '../../src/shared/observability/events.ts';
import type { ConnectedApp } from '../../src/shared/provider/connected-app.ts';
import type { ProviderClient } from '../../src/shared/provider/provider-client.ts';
import { createSessionLists } from '../../src/shared/sessions/session-lists.ts';
import { createSessionRecords, dataOf } from '../../src/shared/sessions/session-record.ts';
import { keys } from '../../src/shared/storage/keys.ts';
import { createLeases } from '../../src/shared/storage/lease.ts';
import { createSealedJson } from '../../src/shared/storage/sealed-json.ts';
import { appOfFile } from '../support/apps.ts';
import {
  type Fleet,
  type FleetUser,
  LOGINS,
  limitFileSize,
  type Member,
  missingPrlimit,
  type StoreKind,
  startFleet,
} from '../support/fleet.ts';
import { CLIENT_SECRET } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { until } from '../support/until.ts';
import { killAtRandom } from './random-kills.ts';
import { createFaultReport, LONG } from './report.ts';

const PROCESSES = 4;
/** For each of two policies on each of two stores. */
const KILLS = LONG ? 250 : 8;
const TIMES = refreshTimes(2_000);
/** Longer than a lease, or two in a long run, and less than 15 s, after which a call gets a 504. */
const SLOW_MILLISECONDS = LONG ? 2.5 * TIMES.leaseMilliseconds : TIMES.leaseMilliseconds + 1_000;
const [UMA = '', SVEN = '', ADA = ''] = LOGINS;

/** Its tests run one after the other, but concurrently with those of another suite, because they mostly wait. */
export function faultSuite(kind: StoreKind): void {
  describe.concurrent(`${PROCESSES} processes on ${kind}`, () => defineTests(kind));
}

function defineTests(kind: StoreKind): void {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  const report = createFaultReport();
  let fleet: Fleet;
  beforeAll(async () => {
    if (!missing) fleet = await startFleet({ kind, processes: PROCESSES });
  });
  afterEach(async () => {
    if (!fleet) return;
    fleet.tokenEndpoint.lifetimeSeconds = 3_600;
    fleet.tokenEndpoint.delayMilliseconds = () => 0;
    fleet.sandbox.refreshTokens.policy = 'rotating';
    for (const member of fleet.members) {
      if (member.isRunning()) member.signal('SIGCONT');
      else await member.start();
    }
  });
  afterAll(async () => {
    await fleet?.close();
    report.print(`Faults on ${kind}`);
  });

  /** Signs in a user whose access token has expired. The next token lasts an hour. */
  const signInWithExpiredToken = async (login: string): Promise<FleetUser> => {
    fleet.tokenEndpoint.lifetimeSeconds = 1;
    const user = await fleet.signIn(login);
    await sleep(1_100);
    fleet.tokenEndpoint.lifetimeSeconds = 3_600;
    return user;
  };
  const statuses = async (user: FleetUser) => {
    const responses = await Promise.all(fleet.members.map((member) => fleet.thread(member, user)));
    return responses.map(({ status }) => status);
  };
  const ALL_GOOD = Array(PROCESSES).fill(200);
  /** How often a refresh token of this user was sent to the provider. */
  const countUses = (user: FleetUser) => fleet.tokenEndpoint.countUsesBy(user.userId);
  const newestTokensOf = (user: FleetUser) => fleet.tokenEndpoint.latestOf(user.userId);
  const fault = (name: string, work: () => Promise<string | undefined>, rounds = 1) =>
    test(name, { concurrent: false }, async (context: TestContext) => {
      skipIfMissing(context, missing);
      await report.run(name, rounds, work);
    });

  fault(
    'R38, F1: killed after the new refresh token was stored but before the response was checked: it is used, even with a strict provider',
    async () => {
      const user = await signInWithExpiredToken(UMA);
      const calls = fleet.tokenEndpoint.callCount();
      // This process has not verified an ID token yet, so it reads the keys after it has stored the refresh token.
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      const clearFault = fleet.sandbox.faults.set({
        listener: 'identity-provider',
        path: '/jwks',
        kind: 'hold',
        until: released,
      });
      const victim = fleet.member(3);
      const lostRequest = fleet.thread(victim, user).catch(() => undefined);
      const received = async () => (await fleet.storage.readGrant(user.userId)).refresh?.received;
      await until(async () => (await received()) !== undefined);
      expect(await received()).toBe(newestTokensOf(user)?.refreshToken);

      await victim.kill();
      await lostRequest;
      clearFault();
      release();
      expect((await fleet.thread(fleet.member(1), user)).status).toBe(200);
      expect(fleet.tokenEndpoint.callCount()).toBe(calls + 2);

      const { refreshToken, failure } = await fleet.storage.readGrant(user.userId);
      expect({ refreshToken, failure }).toEqual({
        refreshToken: newestTokensOf(user)?.refreshToken,
        failure: undefined,
      });

      return undefined;
    },
  );

  fault(
    `R34, F2: ${PROCESSES} x 50 requests on an expired token, the provider slow by ${SLOW_MILLISECONDS / 1_000} s: 1 token call, all requests succeed`,
    async () => {
      const user = await signInWithExpiredToken(UMA);
      const calls = fleet.tokenEndpoint.callCount();
      fleet.tokenEndpoint.delayMilliseconds = () => SLOW_MILLISECONDS;
      const elapsed = startStopwatch();
      const requestThread = async (member: Member) => {
        const response = await fleet.thread(member, user);
        // On a busy machine a call may use its 15 s while waiting for a processor. The caller retries it.
        return response.status === 504 && elapsed() < 15_000 ? fleet.thread(member, user) : response;
      };
      const responses = await Promise.all(
        fleet.members.flatMap((member) => Array.from({ length: 50 }, () => requestThread(member))),
      );
      const good = responses.filter(({ status }) => status === 200).length;
      expect(good).toBe(50 * PROCESSES);
      expect(fleet.tokenEndpoint.callCount()).toBe(calls + 1);

      return `${good} successful responses`;
    },
  );

  fault(
    'R36, F3: stopped before the response arrives, and resumed after another process has refreshed: overwrites nothing',
    async () => {
      fleet.sandbox.refreshTokens.policy = 'grace';
      const user = await signInWithExpiredToken(UMA);
      const calls = fleet.tokenEndpoint.callCount();
      const stopped = fleet.member(1);
      const { lateResponse, release } = await stopDuringRefresh(stopped, user);
      release();
      const { status } = await fleet.thread(fleet.member(2), user);
      const newestTokens = newestTokensOf(user);
      const callsOfBoth = fleet.tokenEndpoint.callCount();
      // Resume it before any check can fail, because a stopped process would delay the end of the fleet.
      stopped.signal('SIGCONT');
      expect({ status, callsOfBoth }).toEqual({ status: 200, callsOfBoth: calls + 2 });
      expect((await lateResponse).status).toBe(200);

      const { accessToken, refreshToken } = await fleet.storage.readGrant(user.userId);
      expect({ accessToken, refreshToken }).toEqual({
        accessToken: newestTokens?.accessToken,
        refreshToken: newestTokens?.refreshToken,
      });
      expect(await statuses(user)).toEqual(ALL_GOOD);
      expect(fleet.tokenEndpoint.callCount()).toBe(calls + 2);

      return undefined;
    },
  );

  fault('R35, F3: resumed while another process refreshes: that lease stays, and there is no third call', async () => {
    fleet.sandbox.refreshTokens.policy = 'grace';
    const user = await signInWithExpiredToken(SVEN);
    const calls = fleet.tokenEndpoint.callCount();
    const stopped = fleet.member(1);
    const { lateResponse, release } = await stopDuringRefresh(stopped, user);
    release();
    const hold = fleet.tokenEndpoint.holdNext();
    const secondThread = fleet.thread(fleet.member(2), user);
    // A process that was stopped during a database write blocks all refreshes.
    const isRefreshing = await Promise.race([hold.prepared.then(() => true), secondThread.then(() => false)]);
    stopped.signal('SIGCONT');
    if (!isRefreshing) hold.release();
    expect(isRefreshing).toBe(true);
    expect((await lateResponse).status).toBe(200);

    // The resumed process releases its lease before it responds.
    const lease = keys.refreshLease(user.userId, 'platform');
    expect(await fleet.storage.store.acquireLease(lease, 'another process', 1_000)).toBeUndefined();

    hold.release();
    expect((await secondThread).status).toBe(200);
    expect(await statuses(user)).toEqual(ALL_GOOD);
    expect(fleet.tokenEndpoint.callCount()).toBe(calls + 2);

    // Some providers end the token of the first call at the second call.
    const { refreshToken, refresh } = await fleet.storage.readGrant(user.userId);
    expect([refreshToken, refresh]).toEqual([fleet.tokenEndpoint.latestOf(user.userId)?.refreshToken, undefined]);

    return undefined;
  });

  fault('R36: a process that has lost the lease writes nothing, not even over the version that it read', async () => {
    const { store, grants } = fleet.storage;
    const storeThatLosesLeases = { ...store, renewLease: async () => false };
    const app = appOfFile(fleet.env);
    const grant = grantOf('fenced', app);
    const lease = keys.refreshLease(grant.userId, grant.appId);
    await grants.save(grant, 0);
    let grantInBetween: Grant | undefined;
    const provider = {
      async refresh(_app: ConnectedApp, { saveRefreshToken }: Parameters<ProviderClient['refresh']>[1]) {
        await until(async () => (await store.acquireLease(lease, 'the next process', 60_000)) !== undefined);
        await saveRefreshToken?.('rt2');
        grantInBetween = await fleet.storage.readGrant(grant.userId);
        return { kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined };
      },
    } as unknown as ProviderClient;
    const events = { refreshEnded: () => undefined, reconnectNeeded: () => undefined } as unknown as Events;
    const leases = createLeases({ store: storeThatLosesLeases, milliseconds: 300 });
    const parts = {
      grants,
      provider,
      revokeUnowned: provider.revoke,
      leases,
      times: TIMES,
      events,
      clock: Date.now,
      random: Math.random,
    };
    const refresher = createRefresher(parts);
    await refresher.refresh({ userId: grant.userId, app });
    expect(grantInBetween?.refresh?.startedAt).toBeGreaterThan(0);
    expect(grantInBetween?.refresh?.received).toBeUndefined();
    expect(await fleet.storage.readGrant(grant.userId)).toMatchObject({
      refreshToken: 'rt1',
      refresh: grantInBetween?.refresh,
    });

    await store.releaseLease(lease, 'the next process');
    await grants.remove(grant.userId, grant.appId, (await grants.loadStored(grant.userId, grant.appId))?.version ?? 0);
    return undefined;
  });

  fault(
    'R43: disconnected at one process while another waits for the provider: stays disconnected, and the new tokens are revoked',
    async () => {
      const user = await signInWithExpiredToken(ADA);
      const hold = fleet.tokenEndpoint.holdNext();
      const pendingThread = fleet.thread(fleet.member(1), user);
      await hold.prepared;
      expect((await fleet.post(fleet.member(2), '/connections/platform/disconnect', user)).status).toBe(200);

      const revocations = fleet.sandbox.requests.count('POST /revoke');
      hold.release();
      expect(JSON.parse((await pendingThread).body)).toMatchObject({ code: 'not_connected' });
      expect(await fleet.storage.grants.loadStored(user.userId, 'platform')).toBeUndefined();
      expect(fleet.sandbox.requests.count('POST /revoke')).toBe(revocations + 1);

      return undefined;
    },
  );

  fault(
    'R39, F1: killed between response and write, strict provider: one further try at the start, then reconnect_needed',
    async () => {
      const user = await signInWithExpiredToken(UMA);
      const other = await signInWithExpiredToken(SVEN);
      const usesBefore = countUses(user);
      const otherUsesBefore = countUses(other);
      await killDuringRefresh(fleet.member(1), user);
      await fleet.member(1).start();
      const failure = async () => (await fleet.storage.readGrant(user.userId)).failure;
      await until(async () => (await failure())?.kind === 'reconnect_needed');
      expect(await fleet.health(fleet.member(2), user)).toEqual({
        health: 'reconnect_needed',
        cause: 'response_lost',
      });

      for (let attempt = 0; attempt < 3; attempt += 1) expect(await statuses(user)).not.toContain(200);
      expect(countUses(user)).toBe(usesBefore + 2);
      expect(await statuses(other)).toEqual(ALL_GOOD);
      expect(countUses(other)).toBe(otherUsesBefore + 1);
      expect(await fleet.health(fleet.member(2), other)).toEqual({ health: 'active', cause: null });

      await until(async () => (await fleet.storage.grants.listUnfinishedRefreshes()).length === 0);
      // The log is written in batches.
      await until(() => fleet.output().includes('response_lost'));
      return undefined;
    },
  );

  fault(
    'R38, F1: killed between response and write, provider with a grace period: recovered at the start, nothing lost',
    async () => {
      fleet.sandbox.refreshTokens.policy = 'grace';
      const user = await signInWithExpiredToken(UMA);
      const calls = fleet.tokenEndpoint.callCount();
      await killDuringRefresh(fleet.member(1), user);
      await fleet.member(1).start();
      await until(async () => (await fleet.storage.readGrant(user.userId)).refresh === undefined);
      expect((await fleet.storage.readGrant(user.userId)).refreshToken).toBe(newestTokensOf(user)?.refreshToken);
      expect(await statuses(user)).toEqual(ALL_GOOD);
      expect(fleet.tokenEndpoint.callCount()).toBe(calls + 2);

      return undefined;
    },
  );

  fault('R39: a response that the network loses causes one further try, without a loop', async () => {
    const user = await signInWithExpiredToken(UMA);
    const usesBefore = countUses(user);
    const lostResponse = { kind: 'reset', when: 'after_handling', times: 1 } as const;
    fleet.sandbox.faults.set({ listener: 'identity-provider', path: '/token', ...lostResponse });
    expect((await fleet.thread(fleet.member(1), user)).status).toBe(503);
    // All processes respect the pause.
    expect(await statuses(user)).toEqual(Array(PROCESSES).fill(503));
    expect(countUses(user)).toBe(usesBefore + 1);

    await endPause(user);
    for (let attempt = 0; attempt < 3; attempt += 1) expect(await statuses(user)).not.toContain(200);
    expect(countUses(user)).toBe(usesBefore + 2);
    expect(await fleet.health(fleet.member(2), user)).toEqual({ health: 'reconnect_needed', cause: 'response_lost' });

    return undefined;
  });

  fault(
    `R38, F1: ${KILLS} random kill -9 under load, provider with a grace period: every grant is readable, every connection works`,
    async () => {
      fleet.sandbox.refreshTokens.policy = 'grace';
      const tally = await killAtRandom(fleet, LOGINS, KILLS);
      const users = LOGINS.map((login) => ({ login, lost: 0 }));
      expect(tally).toMatchObject({ kills: KILLS, misled: [], refusals: 0, users });
      expect(tally.refreshes).toBeGreaterThan(KILLS / 2 + LOGINS.length);

      return `${tally.refreshes} refreshes, nothing lost`;
    },
    KILLS,
  );

  fault(
    `R39, F1: ${KILLS} random kill -9 under load, strict provider: only users whose response was lost must reconnect, no loop`,
    async () => {
      const tally = await killAtRandom(fleet, LOGINS, KILLS);
      expect(tally).toMatchObject({ kills: KILLS, misled: [] });
      expect(tally.refreshes).toBeGreaterThan(KILLS / 2 + LOGINS.length);

      for (const { login, lost, furtherTries } of tally.users) {
        // Each loss needs a further try. A kill that the test misses may allow a second; a loop would make many.
        expect(furtherTries.length, login).toBeGreaterThanOrEqual(lost);
        expect(Math.max(0, ...furtherTries), login).toBeLessThanOrEqual(2);
      }
      const lost = tally.users.map((losses) => losses.lost).reduce((sum, count) => sum + count, 0);
      return `${tally.refreshes} refreshes, ${lost} responses lost, ${tally.refusals} further tries`;
    },
    KILLS,
  );

  test('F16: no space: refreshes are refused before a call of the provider, valid tokens work, and the process recovers', {
    concurrent: false,
  }, async (context) => {
    skipIfMissing(context, missing ?? (kind === 'SQLite' ? missingPrlimit : undefined));
    await report.run('F16: no space', 1, async () => {
      const userWithValidToken = await fleet.signIn(SVEN);
      const user = await signInWithExpiredToken(UMA);
      const calls = fleet.tokenEndpoint.callCount();
      await setSpace('none');
      try {
        for (const member of fleet.members) {
          const refused = await fleet.thread(member, user);
          expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'storage_unavailable']);
          expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
        }
        expect(await statuses(userWithValidToken)).toEqual(ALL_GOOD);
        expect(fleet.tokenEndpoint.callCount()).toBe(calls);
      } finally {
        await setSpace('plenty');
      }
      expect(await statuses(user)).toEqual(ALL_GOOD);
      expect(fleet.tokenEndpoint.callCount()).toBe(calls + 1);

      return undefined;
    });
  });

  fault('R62: a sign-out at one process ends the session at all, even during a slow request', async () => {
    const user = await fleet.signIn(ADA);
    const { store, sealer } = fleet.storage;
    const lists = createSessionLists({ store, maxSeconds: 28_800, clock: Date.now });
    const lifetimes = { idleSeconds: 1_800, maxSeconds: 28_800 };
    const records = createSessionRecords({
      store,
      sealedJson: createSealedJson(sealer),
      lists,
      lifetimes,
      clock: Date.now,
    });
    const sessionId = sessionIdOf(user);
    const record = await records.read(sessionId, { extend: false });
    if (!record) throw new Error('There is no session.');
    const clearFault = fleet.sandbox.faults.set({ listener: 'platform', kind: 'slow', ms: 1_000 });
    const callsBefore = fleet.sandbox.requests.count('GET /1/threads/current');
    const slowRequest = fleet.thread(fleet.member(2), user);
    await until(() => fleet.sandbox.requests.count('GET /1/threads/current') > callsBefore);
    expect((await fleet.post(fleet.member(1), '/sign-out', user)).status).toBeLessThan(400);
    expect(await statuses(user)).toEqual(Array(PROCESSES).fill(401));

    await slowRequest;
    clearFault();
    expect(await statuses(user)).toEqual(Array(PROCESSES).fill(401));

    // A late write by a request that has read the session before, or that has started it.
    const readSession = dataOf(record);
    const { createdAt: _, ...newSession } = readSession;
    for (const session of [readSession, newSession]) {
      await records.write(sessionId, session as SessionData);
      expect(await statuses(user)).toEqual(Array(PROCESSES).fill(401));
    }
    const sessions = await Promise.all(fleet.members.map((member) => fleet.get(member, '/session', user)));
    expect(sessions.map(({ body }) => JSON.parse(body).signedIn)).toEqual(Array(PROCESSES).fill(false));

    return undefined;
  });

  fault('R44: no file and no output of the processes contains a token or a secret', async () => {
    // During a refresh with an open journal entry, after a process was killed.
    const user = await signInWithExpiredToken(UMA);
    const hold = fleet.tokenEndpoint.holdNext();
    const pendingThread = fleet.thread(fleet.member(1), user);
    await hold.prepared;
    const folders = [fleet.dataDirectory, ...(fleet.redis ? [fleet.redis.directory] : [])];
    fleet.redis?.sendCommand('SAVE');
    const texts = [...folders.flatMap(filesBelow).map((file) => readFileSync(file, 'latin1')), fleet.output()];
    hold.release();
    await pendingThread;
    expect(texts.some((text) => text.includes(user.userId))).toBe(true);

    const keyMaterial = (fleet.env.ENCRYPTION_KEYS ?? '').split(':')[1] ?? '';
    const sessionId = sessionIdOf(user);
    const secrets = [CLIENT_SECRET, keyMaterial, fleet.env.SESSION_SECRETS ?? '', sessionId];
    const issued = fleet.tokenEndpoint.issued.flatMap((tokens) => [
      tokens.accessToken,
      tokens.refreshToken,
      tokens.idToken,
    ]);
    const canaries = [...new Set([...secrets, ...issued])];
    expect(canaries.every((canary) => canary.length >= 16)).toBe(true);
    expect(canaries.length).toBeGreaterThan(50);

    // In plain text and in Base64.
    const formsOf = (canary: string) => [canary, ...[0, 1, 2].map((offset) => base64Inside(canary, offset))];
    const found = canaries.flatMap(formsOf).filter((text) => texts.some((file) => file.includes(text)));
    expect(found).toHaveLength(0);

    return `${canaries.length} canaries, ${texts.length} texts`;
  });

  /** Stops a process after the provider has spent the refresh token, before the response is sent. */
  async function stopDuringRefresh(member: Member, user: FleetUser) {
    const hold = fleet.tokenEndpoint.holdNext();
    const lateResponse = fleet.thread(member, user);
    await hold.prepared;
    member.signal('SIGSTOP');
    return { lateResponse, release: hold.release };
  }

  async function killDuringRefresh(member: Member, user: FleetUser): Promise<void> {
    const hold = fleet.tokenEndpoint.holdNext();
    const lateResponse = fleet.thread(member, user).catch(() => undefined);
    await hold.prepared;
    await member.kill();
    hold.release();
    await lateResponse;
  }

  /** Ends the pause after a failure. */
  async function endPause(user: FleetUser): Promise<void> {
    const { grants } = fleet.storage;
    const stored = await grants.loadStored(user.userId, 'platform');
    if (!stored || 'unreadable' in stored || !stored.grant.failure) throw new Error('There is no pause.');
    const failure = { ...stored.grant.failure, retryAt: Date.now() };
    expect(await grants.save({ ...stored.grant, failure }, stored.version)).toBeDefined();
  }

  async function setSpace(space: 'none' | 'plenty'): Promise<void> {
    if (fleet.redis) {
      fleet.redis.sendCommand('CONFIG', 'SET', 'maxmemory', space === 'none' ? '1' : '0');
      return;
    }
    const bytes = space === 'none' ? 0 : 'unlimited';
    await Promise.all(fleet.members.map((member) => limitFileSize(member.program.pid, bytes)));
  }
}

function grantOf(userId: string, app: ConnectedApp): Grant {
  const now = Date.now();
  return {
    id: newConnectionId(),
    userId,
    appId: app.id,
    registration: registrationOf(app),
    accessToken: 'at1',
    refreshToken: 'rt1',
    scopes: [],
    account: {},
    obtainedAt: now - 61_000,
    expiresAt: now - 1_000,
    connectedAt: now - 61_000,
    consentedAt: now - 61_000,
    failure: undefined,
    refresh: undefined,
  };
}

/** Returns the session id in the signed cookie of this user. */
function sessionIdOf({ cookie }: FleetUser): string {
  return /gatehouse[^=;]*=s:([^.]+)\./.exec(decodeURIComponent(cookie))?.[1] ?? '';
}

function filesBelow(directory: string): string[] {
  try {
    return readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  } catch {
    // On Redis there is no data directory.
    return [];
  }
}

/** The Base64 of a text at this offset (0 to 2) in a longer text, without characters that depend on that text. */
function base64Inside(text: string, offset: number): string {
  return Buffer.from(' '.repeat(offset) + text)
    .toString('base64')
    .slice(offset === 0 ? 0 : offset + 1, -4);
}
