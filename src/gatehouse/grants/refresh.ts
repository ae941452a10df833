/**
 * Refreshes grants: one call to the provider at a time across all processes, with a journal entry that survives a kill.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { workByKey } from '../../shared/fair-pool.ts';
import type { Events } from '../../shared/observability/events.ts';
import { type ConnectedApp, providerHostOf } from '../../shared/provider/connected-app.ts';
import { isSameIssuer, issuerOf } from '../../shared/provider/issuer.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import type { RefreshOutcome } from '../../shared/provider/token-refresh.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Fence, Leases } from '../../shared/storage/lease.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import { type Grant, hasUsableToken, type StoredGrant } from './grant.ts';
import { type GrantStore, storedGrantForApp } from './grant-store.ts';
import { ifDue, isRefused, type RefreshRequest } from './refresh-due.ts';
import { createRefreshJournal, isNarrowed, mayHaveUnsavedResponse, type RefreshCall } from './refresh-journal.ts';
import { createRefreshOutcomes, OTHER_SUBJECT } from './refresh-outcome.ts';
import type { Revocations } from './revocations.ts';

export interface Refreshed {
  /** The grant as the app of the request may use it. */
  stored: StoredGrant | undefined;
  /**
   * How the call to the provider ended; undefined without a call, or if `stored` is of another connection or consent.
   */
  outcome?: RefreshOutcome;
}

interface InFlight {
  /** The `rejected` of the request that started this refresh. */
  rejected: string | undefined;
  result: Promise<Refreshed>;
}

const RELOAD_PAUSE_MS = 100;
/** Interrupted refreshes of one app that run concurrently. A provider that hangs does not delay other apps. */
const MAX_CONCURRENT_INTERRUPTED = 8;
/** A process that waited longer than this for the lease checks again that the store can save the response. */
const WRITABLE_CHECK_VALID_MS = 500;
/** How often to attempt a refresh if other writes change the grant first. */
const MAX_ATTEMPTS = 3;
/**
 * While another process refreshes: the interval of loading its result (a read), the interval of trying to get its lease
 * (a write), and the longest wait.
 */
const WAIT = { minPollMs: 5, maxPollMs: 40, leaseAttemptMs: 25, maxMs: 30_000 };

/** A process that lost the store reconnects within this time and saves its response. */
const RECONNECT_MS = 1_300;
const MIN_LEASE_MS = 4_000;

/** Times that depend on the store's deadline for a command. */
export interface RefreshTimes {
  /** How long after its last renewal the lease of a refresh expires. */
  leaseMilliseconds: number;
  /** How long a new holder of the lease waits until the previous holder has saved its response. */
  reconnectMilliseconds: number;
}

/**
 * Returns times with which a process whose writes take the full deadline still keeps its lease, and saves its response
 * before another process calls the provider.
 */
export function refreshTimes(storageDeadlineMilliseconds: number): RefreshTimes {
  const reconnectMilliseconds = storageDeadlineMilliseconds + RECONNECT_MS;
  // The lease is renewed after a third of its time, and that write may take the full deadline as well.
  return { reconnectMilliseconds, leaseMilliseconds: Math.max(MIN_LEASE_MS, 1.5 * reconnectMilliseconds) };
}

export interface Refresher {
  /**
   * Refreshes the grant if that is due, and returns it; its `failure` says what went wrong.
   * Concurrent requests for the same user and app share one refresh, in this process and across processes.
   */
  refresh(request: RefreshRequest): Promise<StoredGrant | undefined>;

  /**
   * Refreshes the grant or gets a narrowed access token, and returns how the call ended. Equal requests share one call.
   */
  attempt(request: RefreshRequest): Promise<Refreshed>;

  /** Refreshes each grant that a killed process left with a journal entry. */
  refreshInterrupted(findApp: (appId: string) => ConnectedApp | undefined): Promise<void>;

  /**
   * Starts no further interrupted refresh. Resolves once no refresh is in flight: a call that was sent is never aborted
   * (R90, F22).
   */
  close(): Promise<void>;
}

export function createRefresher(parts: {
  grants: GrantStore;
  provider: Pick<ProviderClient, 'refresh'>;
  revokeUnowned: Revocations['revokeUnowned'];
  leases: Leases;
  times: Pick<RefreshTimes, 'reconnectMilliseconds'>;
  events: Events;
  clock: () => number;
  random: () => number;
  /** When the storage last failed over (milliseconds since the epoch). */
  failedOverAt?: (() => number | undefined) | undefined;
}): Refresher {
  const { grants, provider, leases, times, events, clock, random } = parts;
  const journal = createRefreshJournal(grants, clock);
  const outcomes = createRefreshOutcomes(parts);
  // By user, app, registration, scopes and resource, so that no caller gets another user's grant (R33), or a grant of
  // an earlier registration.
  const inFlight = new Map<string, InFlight>();

  const refresh = async (request: RefreshRequest): Promise<StoredGrant | undefined> => {
    const { rejected, result } = joinOrStart(request);
    const { stored } = await result;
    // The shared refresh may have started before the platform refused this token, and found no refresh due.
    const isUnchanged = stored && 'grant' in stored && stored.grant.accessToken === request.rejected;
    const needsOwnRefresh = isUnchanged && rejected !== request.rejected;
    return needsOwnRefresh ? (await joinOrStart(request).result).stored : stored;
  };

  const joinOrStart = (request: RefreshRequest): InFlight => {
    const { userId, app, scopes, resource } = request;
    const key = JSON.stringify([userId, app.id, registrationOf(app), scopes?.toSorted(), resource]);
    const existing = inFlight.get(key);
    if (existing) return existing;
    // During the refresh, the user may connect the app under another registration.
    const result = refreshOrWait(request)
      .then((refreshed) => ({ ...refreshed, stored: storedGrantForApp(app, refreshed.stored) }))
      .finally(() => inFlight.delete(key));
    const refreshInFlight = { rejected: request.rejected, result };
    inFlight.set(key, refreshInFlight);
    return refreshInFlight;
  };

  /**
   * Refreshes the grant, or waits for the process that refreshes it. A request for a narrowed token lets requests for
   * the access token of the grant go first, so that these wait for one refresh at most (R135).
   */
  const refreshOrWait = async (request: RefreshRequest): Promise<Refreshed> => {
    const { userId, app } = request;
    const isNarrowing = isNarrowed(request);
    const startedAt = performance.now();
    let nextLeaseAttemptAt = startedAt;
    let isAnnounced = false;
    try {
      for (;;) {
        const stored = await grants.load(userId, app);
        const now = performance.now();
        if (!ifDue(stored, request, clock()) || now > startedAt + WAIT.maxMs) return { stored };
        if (now >= nextLeaseAttemptAt) {
          // Checked before the lease is taken, so that a full store refuses the refresh without another write.
          if (nextLeaseAttemptAt === startedAt) await grants.assertWritable(inFlight.size);
          const lease = keys.refreshLease(userId, app.id);
          const waitsForOther = isNarrowing && (await grants.isRefreshAwaited(userId, app.id));
          const underLease = waitsForOther
            ? undefined
            : await leases.hold(lease, (fence) => refreshUnderLease(request, fence, startedAt));
          if (underLease) return underLease.value;
          if (!isNarrowing && !isAnnounced) {
            isAnnounced = true;
            await grants.addAwaitedRefresh(userId, app.id);
          }
          nextLeaseAttemptAt = performance.now() + WAIT.leaseAttemptMs * (1 + random());
        }
        // Most refreshes end soon, so the grant is loaded often at first, then less often.
        await sleep(Math.min(WAIT.maxPollMs, WAIT.minPollMs + (now - startedAt) / 8));
      }
    } finally {
      if (isAnnounced) await grants.removeAwaitedRefresh(userId, app.id).catch(() => undefined);
    }
  };

  /** @param checkedAt when `assertWritable` last passed, by `performance.now()` */
  const refreshUnderLease = async (request: RefreshRequest, fence: Fence, checkedAt: number): Promise<Refreshed> => {
    const { userId, app, rejected } = request;
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const stored = await loadAfterUnsaved(request);
      const due = ifDue(stored, request, clock());
      if (!due) return { stored };
      if (due.grant.refreshToken === undefined) {
        const usable = hasUsableToken(due.grant, clock());
        if (usable && !isRefused(due.grant, rejected, clock())) return { stored };
        return { stored: await outcomes.saveNotRefreshable({ app, ...due, fence, lostEntry: undefined }, usable) };
      }
      if (performance.now() - checkedAt > WRITABLE_CHECK_VALID_MS) await grants.assertWritable(inFlight.size);
      const call = await journal.writeEntry(request, due, fence);
      if (call) return callProvider(call);
      // Another write changed the grant first, such as a key rotation that sealed it again: start over with that grant.
    }
    return { stored: await grants.load(userId, app) };
  };

  /** Loads the grant once no earlier holder of the lease can still save its response, or the wait is over. */
  const loadAfterUnsaved = async (request: RefreshRequest): Promise<StoredGrant | undefined> => {
    const waitUntil = performance.now() + times.reconnectMilliseconds;
    for (;;) {
      const stored = await grants.load(request.userId, request.app);
      const due = ifDue(stored, request, clock());
      if (!due || !mayHaveUnsavedResponse(due.grant, clock()) || performance.now() >= waitUntil) return stored;
      await sleep(RELOAD_PAUSE_MS);
    }
  };

  const callProvider = async (begun: RefreshCall): Promise<Refreshed> => {
    const { app, grant, scopes, resource } = begun;
    // Saving a new refresh token gives the grant another version, which the later writes of this call need.
    let call = begun;
    const startedAt = performance.now();
    const response = await provider.refresh(app, {
      refreshToken: grant.refreshToken ?? '',
      dpopKey: grant.dpopKey,
      scopes,
      resource,
      saveRefreshToken: async (refreshToken) => {
        call = await outcomes.saveReceivedToken(call, refreshToken);
      },
    });
    const seconds = Math.round(performance.now() - startedAt) / 1000;
    const outcome = rejectOtherSubject(app, grant, response);
    const reason = 'reason' in outcome ? outcome.reason : isNarrowed(begun) ? 'for a narrower token' : undefined;
    const name = outcome.kind === 'tokens' ? 'refreshed' : outcome.kind;
    const host = providerHostOf(app);
    const repeated = outcome.kind !== 'tokens' && grant.failure !== undefined ? true : undefined;
    const ids = { userId: grant.userId, app: app.id, connection: grant.id };
    events.refreshEnded({ ...ids, outcome: name, reason, repeated, host, seconds });
    const stored = await outcomes.saveOutcome(call, outcome);
    // A stale entry in the list of unfinished refreshes costs one read at the next start.
    if (hasNoEntry(stored)) await grants.removeUnfinishedRefresh(grant.userId, app.id).catch(() => undefined);
    return isReplaced(grant, stored) ? { stored } : { stored, outcome };
  };

  let isStopping = false;
  let interrupted: Promise<void> = Promise.resolve();

  const refreshInterrupted = async (findApp: (appId: string) => ConnectedApp | undefined): Promise<void> => {
    const unfinishedRefreshes = await grants.listUnfinishedRefreshes();
    const refreshOne = async ({ userId, appId }: { userId: string; appId: string }) => {
      const app = findApp(appId);
      const stored = app && (await refresh({ userId, app, closesJournal: true }));
      if (hasNoEntry(stored)) await grants.removeUnfinishedRefresh(userId, appId);
    };
    // A grant whose lease is taken, or whose refresh fails, must not delay the others.
    const options = { keyOf: ({ appId }: { appId: string }) => appId, atOnce: MAX_CONCURRENT_INTERRUPTED };
    await workByKey(unfinishedRefreshes, options, (connection) =>
      isStopping ? undefined : refreshOne(connection).catch(() => undefined),
    );
  };

  return {
    refresh,

    attempt: (request) => joinOrStart(request).result,

    refreshInterrupted(findApp) {
      interrupted = refreshInterrupted(findApp);
      return interrupted;
    },

    async close() {
      isStopping = true;
      await interrupted.catch(() => undefined);
      while (inFlight.size > 0) await Promise.allSettled([...inFlight.values()].map(({ result }) => result));
    },
  };
}

/** True if the journal has no entry for the grant. */
function hasNoEntry(stored: StoredGrant | undefined): boolean {
  return !stored || ('grant' in stored && !stored.grant.refresh);
}

/**
 * True if the user has connected or consented again since the call began, so that the call's tokens are of the earlier
 * grant.
 */
function isReplaced({ id, consentedAt }: Grant, stored: StoredGrant | undefined): boolean {
  if (!stored || 'unreadable' in stored) return false;
  return stored.grant.id !== id || stored.grant.consentedAt !== consentedAt;
}

/** Rejects a response whose ID token names another subject (OpenID Connect Core section 12.2). */
function rejectOtherSubject(app: ConnectedApp, { account }: Grant, outcome: RefreshOutcome): RefreshOutcome {
  const claims = outcome.kind === 'tokens' ? outcome.response.claims : undefined;
  if (claims === undefined || account.subject === undefined) return outcome;
  const isSame = claims.sub === account.subject && isSameIssuer(app, account, { issuer: issuerOf(app, claims) });
  if (isSame) return outcome;
  return { kind: 'unusable', reason: OTHER_SUBJECT, refreshToken: undefined };
}
