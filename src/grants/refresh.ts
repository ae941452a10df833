/** Refreshes grants: one call to the provider across all processes, with a journal entry that survives a kill. */
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
import { isRefused, mayHaveUnsavedResponse, type RefreshTimes } from './refresh-state.ts';

export interface RefreshRequest {
  userId: string;
  app: ConnectedApp;
  /** The access token that the platform refused (401): refresh even if none is due, unless it was replaced since. */
  rejected?: string | undefined;
  /** Refresh even if none is due where the journal has an open entry, so that the entry is closed. */
  closesJournal?: boolean;
  /** Request an access token with only these scopes (RFC 6749 section 6). It is returned and never stored. */
  scopes?: readonly string[] | undefined;
}

export interface Refreshed {
  stored: StoredGrant | undefined;
  /** How the call to the provider ended; undefined where this request made none. */
  outcome?: RefreshOutcome;
}

export interface Refresher {
  /**
   * Refreshes the grant if that is due, and returns the grant; its `trouble` says what went wrong.
   * Concurrent requests for the same user and app share one refresh, in this process and across processes.
   */
  refresh(request: RefreshRequest): Promise<StoredGrant | undefined>;
  /** Gets an access token with fewer scopes. Concurrent requests for the same scopes share one call. */
  narrow(request: RefreshRequest & { scopes: readonly string[] }): Promise<Refreshed>;
  /** Refreshes each grant that a process left with an open journal entry when it died. */
  settleAbandoned(findApp: (appId: string) => ConnectedApp | undefined): Promise<void>;
  /** Shuts down: resolves once no refresh is in flight, since a call that was sent is never aborted (R90, F22). */
  settle(): Promise<void>;
}

interface InFlight {
  /** The `rejected` of the request that started this refresh. */
  rejected: string | undefined;
  result: Promise<Refreshed>;
}

const RELOAD_PAUSE_MS = 100;
const WITHDRAW_TIMEOUT_MS = 10_000;
const MAX_CONCURRENT_SETTLEMENTS = 8;
/** A process that waited longer than this for the lease checks again that the store can take the response. */
const WRITABLE_CHECK_VALID_MS = 500;
/** How often a refresh starts over because another write changed the grant first. */
const MAX_ATTEMPTS = 3;
/** While another process refreshes: how often to load its result (a read), to try for its lease (a write), and for how long. */
const WAIT = { minPollMs: 5, maxPollMs: 40, leaseAttemptMs: 25, maxMs: 30_000 };

export function createRefresher(parts: {
  grants: GrantStore;
  provider: Pick<ProviderClient, 'refresh' | 'revoke'>;
  leases: Leases;
  times: Pick<RefreshTimes, 'reconnectMilliseconds'>;
  events: Events;
  clock: () => number;
  random: () => number;
}): Refresher {
  const { grants, provider, leases, times, events, clock, random } = parts;
  const outcomes = createRefreshOutcomes(parts);
  // Keyed by user, app and scopes together, so that no caller gets another user's grant (R33).
  const inFlight = new Map<string, InFlight>();

  /** The stored grant if the request needs a call to the provider now; otherwise undefined. */
  const ifDue = (stored: StoredGrant | undefined, { rejected, closesJournal, scopes }: RefreshRequest) => {
    if (!stored || 'unreadable' in stored) return undefined;
    const { grant } = stored;
    const now = clock();
    if (grant.trouble?.kind === 'reconnect_needed') return undefined;
    if (grant.refreshToken && isBackingOff(grant, now)) return undefined;
    if (scopes) return grant.refreshToken === undefined ? undefined : stored;
    const needsToken =
      isRefused(grant, rejected, now) || !isUsable(grant, now) || isRefreshDue(grant, now, spreadOf(grant.userId));
    // A refresh token in the journal replaces the one in the grant, which is spent.
    const hasEntryToClose = grant.refresh && (closesJournal || grant.refresh.received !== undefined);
    return needsToken || hasEntryToClose ? stored : undefined;
  };

  /**
   * Writes the journal entry before the call: after a kill it says that the provider may have responded.
   * Returns undefined where another write changed the grant first.
   */
  const openJournal = async (
    { app, scopes }: RefreshRequest,
    stored: { grant: Grant; version: number },
    fence: Fence,
    startedAt: number,
  ): Promise<RefreshCall | undefined> => {
    const { refresh: earlierEntry } = stored.grant;
    // A refresh token that an earlier, interrupted refresh received is now the one to send.
    const received =
      earlierEntry?.received === undefined ? {} : { refreshToken: earlierEntry.received, refreshedBy: fence.number };
    const grant: Grant = { ...stored.grant, ...received, refresh: { startedAt, received: undefined } };
    await grants.noteOpen(grant.userId, grant.appId);
    if (!(await grants.save(grant, stored.version, fence))) return undefined;
    const opened = await grants.load(grant.userId, grant.appId);
    if (!opened || 'unreadable' in opened || opened.grant.refresh?.startedAt !== startedAt) return undefined;
    const isSameToken = earlierEntry?.received === undefined && opened.grant.refreshToken === stored.grant.refreshToken;
    return {
      app,
      scopes,
      // As loaded: the holder of an expired lease may have stored newer tokens and left this entry open.
      grant: opened.grant,
      version: opened.version,
      fence,
      lostCall: isSameToken && isSpentByUse(stored.grant, app.refresh) ? earlierEntry : undefined,
    };
  };

  /**
   * Removes the journal entry of a call that was never sent, so that no process waits for its response. An entry that was
   * open before is restored, since that earlier call may have got a response.
   */
  const withdrawEntry = async (before: Grant, startedAt: number): Promise<void> => {
    const restore = async () => {
      const stored = await grants.load(before.userId, before.appId);
      if (!stored || 'unreadable' in stored || stored.grant.refresh?.startedAt !== startedAt) return;
      const refresh = stored.grant.refreshToken === before.refreshToken ? before.refresh : undefined;
      await grants.save({ ...stored.grant, refresh }, stored.version);
    };
    await patiently(restore, WITHDRAW_TIMEOUT_MS, RELOAD_PAUSE_MS).catch(() => undefined);
  };

  const callProvider = async (call: RefreshCall): Promise<Refreshed> => {
    const { app, grant, scopes } = call;
    const response = await provider.refresh(app, {
      refreshToken: grant.refreshToken ?? '',
      dpopKey: grant.dpopKey,
      scopes,
      keep: (refreshToken) => outcomes.saveReceivedToken(call, refreshToken),
    });
    const outcome = withSameSubject(grant, response);
    const reason = 'reason' in outcome ? outcome.reason : scopes && 'for a narrower token';
    const name = outcome.kind === 'tokens' ? 'refreshed' : outcome.kind;
    events.refreshEnded({ userId: grant.userId, app: app.id, outcome: name, reason });
    const stored = await outcomes.settle(call, outcome);
    if (!stored || ('grant' in stored && !stored.grant.refresh)) {
      // A stale entry in the list of open refreshes costs one look at the next start.
      await grants.noteClosed(grant.userId, app.id).catch(() => undefined);
    }
    return { stored, outcome };
  };

  /** Loads the grant, and waits while an earlier holder of the lease may still save the response that it received. */
  const loadSettled = async (request: RefreshRequest): Promise<StoredGrant | undefined> => {
    const { userId, app } = request;
    const waitUntil = performance.now() + times.reconnectMilliseconds;
    for (;;) {
      const stored = await grants.load(userId, app.id);
      const isWaiting = ifDue(stored, request) && mayHaveUnsavedResponse(stored, clock());
      if (!isWaiting || performance.now() >= waitUntil) return stored;
      await sleep(RELOAD_PAUSE_MS);
    }
  };

  /** @param checkedAt when the store was last found able to take a response, by `performance.now()` */
  const refreshUnderLease = async (
    request: RefreshRequest,
    { fence, checkedAt }: { fence: Fence; checkedAt: number },
    attemptsLeft = MAX_ATTEMPTS,
  ): Promise<Refreshed> => {
    const { userId, app, rejected } = request;
    const stored = await loadSettled(request);
    const dueGrant = ifDue(stored, request);
    if (!dueGrant) return { stored };
    const { grant, version } = dueGrant;
    if (grant.refreshToken === undefined) {
      const usable = isUsable(grant, clock());
      if (usable && !isRefused(grant, rejected, clock())) return { stored };
      return {
        stored: await outcomes.withoutRefreshToken({ app, grant, version, fence, lostCall: undefined }, usable),
      };
    }
    if (performance.now() - checkedAt > WRITABLE_CHECK_VALID_MS) await grants.assertWritable(inFlight.size);
    const startedAt = clock();
    const call = await openJournal(request, dueGrant, fence, startedAt).catch((error: unknown) => {
      void withdrawEntry(grant, startedAt);
      throw error;
    });
    if (call) return callProvider(call);
    // Another write came first, such as a key rotation that sealed the grant again: start over with what is stored now.
    return attemptsLeft > 1
      ? refreshUnderLease(request, { fence, checkedAt }, attemptsLeft - 1)
      : { stored: await grants.load(userId, app.id) };
  };

  /** Refreshes the grant, or waits for the process that does. */
  const refreshOrWait = async (request: RefreshRequest): Promise<Refreshed> => {
    const { userId, app } = request;
    const startedAt = performance.now();
    let nextLeaseAttemptAt = startedAt;
    for (;;) {
      const stored = await grants.load(userId, app.id);
      const now = performance.now();
      if (!ifDue(stored, request) || now > startedAt + WAIT.maxMs) return { stored };
      if (now >= nextLeaseAttemptAt) {
        // Checked before the lease is taken: a full store then refuses the refresh without another write.
        if (nextLeaseAttemptAt === startedAt) await grants.assertWritable(inFlight.size);
        const refreshed = await leases.hold(keys.refreshLease(userId, app.id), (fence) =>
          refreshUnderLease(request, { fence, checkedAt: startedAt }),
        );
        if (refreshed) return refreshed.value;
        nextLeaseAttemptAt = performance.now() + WAIT.leaseAttemptMs * (1 + random());
      }
      // Most refreshes end soon; the longer one takes, the less a late look matters.
      await sleep(Math.min(WAIT.maxPollMs, WAIT.minPollMs + (now - startedAt) / 8));
    }
  };

  const joinOrStart = (request: RefreshRequest): InFlight => {
    const key = JSON.stringify([request.userId, request.app.id, request.scopes?.toSorted()]);
    const existing = inFlight.get(key);
    if (existing) return existing;
    const result = refreshOrWait(request).finally(() => inFlight.delete(key));
    const started = { rejected: request.rejected, result };
    inFlight.set(key, started);
    return started;
  };

  const refresh = async (request: RefreshRequest): Promise<StoredGrant | undefined> => {
    const { rejected, result } = joinOrStart(request);
    const { stored } = await result;
    // The refresh that was joined may have started before the platform refused this token, and found none due.
    const isUnchanged = stored && 'grant' in stored && stored.grant.accessToken === request.rejected;
    return isUnchanged && rejected !== request.rejected ? (await joinOrStart(request).result).stored : stored;
  };

  let stopping = false;
  let settlement: Promise<void> = Promise.resolve();

  const settleAll = async (findApp: (appId: string) => ConnectedApp | undefined): Promise<void> => {
    const open = await grants.listOpen();
    const settleOne = async ({ userId, appId }: { userId: string; appId: string }) => {
      const app = findApp(appId);
      const stored = app && (await refresh({ userId, app, closesJournal: true }));
      if (!stored || ('grant' in stored && !stored.grant.refresh)) await grants.noteClosed(userId, appId);
    };
    // A grant whose lease is taken, or whose refresh fails, must not keep the others waiting.
    const settleInTurn = async () => {
      for (let next = open.shift(); next && !stopping; next = open.shift())
        await settleOne(next).catch(() => undefined);
    };
    await Promise.all(Array.from({ length: MAX_CONCURRENT_SETTLEMENTS }, settleInTurn));
  };

  return {
    refresh,
    narrow: (request) => joinOrStart(request).result,
    settleAbandoned(findApp) {
      settlement = settleAll(findApp);
      return settlement;
    },
    async settle() {
      stopping = true;
      await settlement.catch(() => undefined);
      while (inFlight.size > 0) await Promise.allSettled([...inFlight.values()].map(({ result }) => result));
    },
  };
}

/** Refuses a response whose ID token names another subject (OpenID Connect Core section 12.2). */
function withSameSubject(grant: Grant, outcome: RefreshOutcome): RefreshOutcome {
  const subject = outcome.kind === 'tokens' ? outcome.response.claims?.sub : undefined;
  if (subject === undefined || grant.account.subject === undefined || subject === grant.account.subject) return outcome;
  return { kind: 'unusable', reason: 'other_subject', refreshToken: undefined };
}
