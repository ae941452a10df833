/** Owns the refreshing of a grant: exactly one call to the provider over any number of processes, with a journal that survives a kill. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import type { RefreshOutcome } from '../connected-apps/refresh-failure.ts';
import type { Events } from '../observability/events.ts';
import { keys } from '../storage/keys.ts';
import type { Fence, Leases } from '../storage/lease.ts';
import { patiently } from '../storage/patience.ts';
import { type Grant, isBackingOff, isRefreshDue, isSpentByUse, isUsable, spreadOf } from './grant.ts';
import type { GrantStore, StoredGrant } from './grant-store.ts';
import { createRefreshOutcomes, type RefreshCall } from './refresh-outcome.ts';
import { isRefused, mayBeHeld } from './refresh-state.ts';

export interface RefreshRequest {
  userId: string;
  app: ConnectedApp;
  /** The access token that the platform refused (401): refresh even if it is not due, unless it was replaced since. */
  rejected?: string | undefined;
  /** Also when nothing is due: an entry that is open is then closed. */
  settling?: boolean;
}

export interface Refresher {
  /**
   * Answers the grant as it stands once whatever was due is done; its `trouble` says what went wrong.
   * Callers at the same time for the same user and app share one refresh, in this process and in others.
   */
  refresh(request: RefreshRequest): Promise<StoredGrant | undefined>;
  /** Settles what a process that died has left open. @param find the app of an id */
  settleAbandoned(find: (appId: string) => ConnectedApp | undefined): Promise<void>;
  /** The end: resolves once no refresh is under way, since what was sent is never given up (R90, F22); settles nothing more. */
  settle(): Promise<void>;
}

interface UnderWay {
  /** What it was begun for. */
  rejected: string | undefined;
  result: Promise<StoredGrant | undefined>;
}

/** Of a lease on a refresh; a holder that dies is noticed after it. */
export const REFRESH_LEASE_MILLISECONDS = 4_000;
/**
 * How long an entry that somebody left open is left alone once their lease has ended: a holder that lives, and that only the
 * storage was away from, writes what it was given as soon as that is back, which takes it less than this.
 */
const LEFT_ALONE_MILLISECONDS = 1_600;
const LOOK_MILLISECONDS = 100;
const WITHDRAWN_WITHIN_MILLISECONDS = 10_000;
/** How many entries that somebody left open are settled at the same time. */
const SETTLED_AT_ONCE = 8;
/** How often a refresh is begun anew because the grant was written by others just then. */
const OPENED_AT_MOST = 3;
/** How often the result of another process is looked for, which reads, and the lease asked for, which writes; and for how long. */
const WAIT = { lookMilliseconds: { least: 5, most: 40 }, tryMilliseconds: 25, mostMilliseconds: 30_000 };

export function createRefresher(parts: {
  grants: GrantStore;
  provider: ProviderClient;
  leases: Leases;
  events: Events;
  clock: () => number;
  random: () => number;
}): Refresher {
  const { grants, provider, leases, events, clock, random } = parts;
  const outcomes = createRefreshOutcomes(parts);
  // Keyed by user and app together, so that nobody is ever answered with another's grant (R33).
  const underWay = new Map<string, UnderWay>();

  /** The grant if it has to be refreshed now, with the version that was read. */
  const due = (stored: StoredGrant | undefined, { rejected, settling }: RefreshRequest) => {
    if (!stored || 'unreadable' in stored) return undefined;
    const { grant } = stored;
    const now = clock();
    if (grant.trouble?.kind === 'reconnect_needed' || (grant.refreshToken && isBackingOff(grant, now)))
      return undefined;
    const wanted =
      isRefused(grant, rejected, now) || !isUsable(grant, now) || isRefreshDue(grant, now, spreadOf(grant.userId));
    // A token that came in before somebody died is used, wanted or not: the old one is spent.
    const open = grant.refresh && (settling || grant.refresh.received !== undefined);
    return wanted || open ? stored : undefined;
  };

  /** Writes "refresh started" before the call, so that whoever comes after a kill knows that it may have been answered. */
  const open = async (
    app: ConnectedApp,
    stored: { grant: Grant; version: number },
    fence: Fence,
    startedAt: number,
  ): Promise<RefreshCall | undefined> => {
    const { refresh: left } = stored.grant;
    // What somebody received and could not end counts from now on as what this call began with.
    const taken = left?.received === undefined ? {} : { refreshToken: left.received, refreshedBy: fence.number };
    const grant: Grant = { ...stored.grant, ...taken, refresh: { startedAt, received: undefined } };
    await grants.assertWritable();
    await grants.noteOpen(grant.userId, grant.appId);
    if (!(await grants.save(grant, stored.version, fence))) return undefined;
    const written = await grants.load(grant.userId, grant.appId);
    if (!written || 'unreadable' in written || written.grant.refresh?.startedAt !== startedAt) return undefined;
    return {
      app,
      // With this version's tokens: a holder that wakes up late may have brought newer ones, and left this entry open.
      grant: written.grant,
      version: written.version,
      fence,
      lost: left !== undefined && left.received === undefined && isSpentByUse(stored.grant, app.refresh),
    };
  };

  /**
   * The provider was never asked: what was noted is taken back once the store is there again, so that nobody leaves it alone.
   * An entry of somebody who died before stands again, since their call may have been answered.
   */
  const withdraw = async (before: Grant, startedAt: number): Promise<void> => {
    const takeBack = async () => {
      const stored = await grants.load(before.userId, before.appId);
      if (!stored || 'unreadable' in stored || stored.grant.refresh?.startedAt !== startedAt) return;
      const refresh = stored.grant.refreshToken === before.refreshToken ? before.refresh : undefined;
      await grants.save({ ...stored.grant, refresh }, stored.version);
    };
    await patiently(takeBack, WITHDRAWN_WITHIN_MILLISECONDS, LOOK_MILLISECONDS).catch(() => undefined);
  };

  const call = async (started: RefreshCall): Promise<StoredGrant | undefined> => {
    const { app, grant } = started;
    const answer = await provider.refresh(app, {
      refreshToken: grant.refreshToken ?? '',
      dpopKey: grant.dpopKey,
      keep: (refreshToken) => outcomes.keepReceived(started, refreshToken),
    });
    const outcome = ofSameSubject(grant, answer);
    const reason = 'reason' in outcome ? outcome.reason : undefined;
    const name = outcome.kind === 'tokens' ? 'refreshed' : outcome.kind;
    events.refreshEnded({ userId: grant.userId, app: app.id, outcome: name, reason });
    const settled = await outcomes.settle(started, outcome);
    if (!settled || ('grant' in settled && !settled.grant.refresh)) {
      // What came is kept; a note that stays is looked at once more at the next start, and costs nobody a request.
      await grants.noteClosed(grant.userId, app.id).catch(() => undefined);
    }
    return settled;
  };

  const underLease = async (
    request: RefreshRequest,
    fence: Fence,
    attempts = OPENED_AT_MOST,
  ): Promise<StoredGrant | undefined> => {
    const { userId, app, rejected } = request;
    let stored = await grants.load(userId, app.id);
    const leaveAloneUntil = performance.now() + LEFT_ALONE_MILLISECONDS;
    while (due(stored, request) && mayBeHeld(stored, clock()) && performance.now() < leaveAloneUntil) {
      await sleep(LOOK_MILLISECONDS);
      stored = await grants.load(userId, app.id);
    }
    const found = due(stored, request);
    if (!found) return stored;
    const { grant, version } = found;
    if (grant.refreshToken === undefined) {
      const lost = { app, grant, version, fence, lost: false };
      const usable = isUsable(grant, clock());
      return usable && !isRefused(grant, rejected, clock()) ? stored : outcomes.withoutRefreshToken(lost, usable);
    }
    const startedAt = clock();
    const started = await open(app, found, fence, startedAt).catch((error: unknown) => {
      void withdraw(grant, startedAt);
      throw error;
    });
    if (started) return call(started);
    // A key rotation may have sealed it again meanwhile; whatever it was, what is there now is judged anew.
    return attempts > 1 ? underLease(request, fence, attempts - 1) : grants.load(userId, app.id);
  };

  /** Does it, or waits for the process that does. */
  const run = async (request: RefreshRequest): Promise<StoredGrant | undefined> => {
    const { userId, app } = request;
    const beganAt = performance.now();
    for (let tryAt = beganAt; ; ) {
      const stored = await grants.load(userId, app.id);
      const now = performance.now();
      if (!due(stored, request) || now > beganAt + WAIT.mostMilliseconds) return stored;
      if (now >= tryAt) {
        const held = await leases.hold(keys.refreshLease(userId, app.id), (fence) => underLease(request, fence));
        if (held) return held.value;
        tryAt = performance.now() + WAIT.tryMilliseconds * (1 + random());
      }
      // Most refreshes are over soon; the longer one takes, the less a late look matters.
      await sleep(Math.min(WAIT.lookMilliseconds.most, WAIT.lookMilliseconds.least + (now - beganAt) / 8));
    }
  };

  const joinOrStart = (request: RefreshRequest): UnderWay => {
    const key = JSON.stringify([request.userId, request.app.id]);
    const existing = underWay.get(key);
    if (existing) return existing;
    const result = run(request).finally(() => underWay.delete(key));
    const started = { rejected: request.rejected, result };
    underWay.set(key, started);
    return started;
  };

  const refresh = async (request: RefreshRequest): Promise<StoredGrant | undefined> => {
    const { rejected, result } = joinOrStart(request);
    const stored = await result;
    // It may have begun before this token was refused, and found nothing due.
    const unchanged = stored && 'grant' in stored && stored.grant.accessToken === request.rejected;
    return unchanged && rejected !== request.rejected ? joinOrStart(request).result : stored;
  };

  let stopping = false;
  let abandoned: Promise<void> = Promise.resolve();

  return {
    refresh,
    settleAbandoned(find) {
      abandoned = settleAll(find);
      return abandoned;
    },
    async settle() {
      stopping = true;
      await abandoned.catch(() => undefined);
      while (underWay.size > 0) await Promise.allSettled([...underWay.values()].map(({ result }) => result));
    },
  };

  async function settleAll(find: (appId: string) => ConnectedApp | undefined): Promise<void> {
    const open = await grants.listOpen();
    const settleOne = async ({ userId, appId }: { userId: string; appId: string }) => {
      const app = find(appId);
      const settled = app && (await refresh({ userId, app, settling: true }));
      if (!settled || ('grant' in settled && !settled.grant.refresh)) await grants.noteClosed(userId, appId);
    };
    // One that another process holds, or that fails, must not keep the rest waiting.
    const settleInTurn = async () => {
      for (let next = open.shift(); next && !stopping; next = open.shift())
        await settleOne(next).catch(() => undefined);
    };
    await Promise.all(Array.from({ length: SETTLED_AT_ONCE }, settleInTurn));
  }
}

/** An ID token of a refresh has to be about the same person (OpenID Connect Core section 12.2). */
function ofSameSubject(grant: Grant, outcome: RefreshOutcome): RefreshOutcome {
  const subject = outcome.kind === 'tokens' ? outcome.answer.claims?.sub : undefined;
  if (outcome.kind !== 'tokens' || subject === undefined || grant.account.subject === undefined) return outcome;
  if (subject === grant.account.subject) return outcome;
  return { kind: 'unusable', reason: 'other_subject', refreshToken: undefined };
}
