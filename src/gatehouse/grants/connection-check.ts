/** Checks idle connections: refreshes each grant that was not refreshed for an interval, to find revoked grants. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../shared/errors.ts';
import { createFairPool } from '../../shared/fair-pool.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { ScheduledTask, TaskTurn } from '../../shared/storage/scheduled-task.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_MS, DAY_SECONDS } from '../../shared/time.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import { connectionOf, type ListedConnection, memberOf } from './connection-index.ts';
import { type Grant, isBackingOff } from './grant.ts';
import type { GrantStore } from './grant-store.ts';
import type { MissingScopes } from './missing-scopes.ts';
import type { Refresher } from './refresh.ts';
import { ifDue, isIdle } from './refresh-due.ts';

export interface CheckOptions {
  isDisabled: (userId: string) => Promise<boolean>;
  /** Charges the app's rate budget with one call. Returns the seconds to wait first, if any. */
  chargeCheck: (app: ConnectedApp) => Promise<number | undefined>;
}

/** How far the list of an app's connections was read. Times in milliseconds since the epoch. */
interface ReadProgress {
  after?: string | undefined;
  /** When the list was last read. */
  at: number;
  /** How many connections should have been read by then, but were not. */
  backlog: number;
  /** Connections that were not checked because the app's budget was spent. They are checked first. */
  deferred: readonly string[];
  /** The length of the list, which was counted at `countedAt`. */
  size: number;
  countedAt: number;
}

interface Turn extends TaskTurn {
  options: CheckOptions;
}

/**
 * `deferred`: the app's budget is spent. `failed`: the provider is unavailable, limits calls or refuses the app.
 * `ofApp`: the failure applies to every connection of the app.
 */
type Result = 'not_due' | 'deferred' | 'checked' | { failed: Grant; ofApp: boolean };

/**
 * A grant is due after this share of the interval. The whole list is read six times per interval; the rest of the
 * interval is for delays.
 */
const DUE_SHARE = 0.75;
const ROUNDS = 6;
const PAUSE_MS = { min: 1_000, max: 10_000 };
/** Concurrent checks of one app. */
const MAX_CONCURRENT = 16;
/** Apps that are checked concurrently, independently of each other. */
const MAX_CONCURRENT_APPS = 16;
const MAX_BATCH = 1_000;
/** How long one app is checked before its progress is stored. */
const MAX_WORK_MS = 5_000;
/** A connection that was unused for longer is not checked, and expires. */
const MAX_UNUSED_MS = 90 * DAY_MS;

/** Creates the scheduled task that checks idle connections; none if the checks are switched off. */
export type CreateCheckTasks = (options: CheckOptions) => ScheduledTask[];

/** @param parts `seconds`: the interval; 0 for no checks */
export function createConnectionCheck(parts: {
  store: Store;
  grants: Pick<GrantStore, 'load' | 'lastUse'>;
  refresher: Pick<Refresher, 'attempt'>;
  missing: Pick<MissingScopes, 'announce'>;
  apps: Pick<CurrentApps, 'list' | 'find'>;
  seconds: number;
  clock: () => number;
}): CreateCheckTasks {
  const { store, grants, refresher, missing, apps, seconds, clock } = parts;
  const roundMs = (seconds * 1000) / ROUNDS;
  const pauseMs = Math.max(PAUSE_MS.min, Math.min(PAUSE_MS.max, roundMs / 4));

  /** By app: a grant whose refresh failed while no other succeeded. Its back-off applies to the whole app. */
  const failedGrants = new Map<string, Grant>();
  const isUnavailable = (appId: string): boolean => {
    const failedGrant = failedGrants.get(appId);
    return failedGrant !== undefined && isBackingOff(failedGrant, clock());
  };

  const check = async (
    { userId, appId }: ListedConnection,
    options: CheckOptions,
    isRetry: boolean,
  ): Promise<Result> => {
    const app = apps.find(appId);
    if (!app || app.disabled) return 'not_due';
    const request = { userId, app, idleSince: clock() - seconds * 1000 * DUE_SHARE };
    const stored = await grants.load(userId, app);
    await missing.announce(app, stored);
    const due = ifDue(stored, request, clock());
    if (!due || !isIdle(due.grant, request.idleSince)) return 'not_due';
    // A refusal without a clear reason may be permanent, so it is checked only once per round.
    if (isRetry && due.grant.failure?.kind !== 'passing') return 'not_due';
    const usedAt = Math.max(due.grant.consentedAt, (await grants.lastUse(userId, appId)) ?? 0);
    if (clock() - usedAt > MAX_UNUSED_MS || (await options.isDisabled(userId))) return 'not_due';
    if ((await options.chargeCheck(app)) !== undefined) return 'deferred';
    const { stored: refreshed, outcome } = await refresher.attempt(request);
    const isFailed = outcome?.kind === 'unavailable' || outcome?.kind === 'app_fault';
    if (!isFailed || !refreshed || 'unreadable' in refreshed) return 'checked';
    const isLimit = outcome.kind === 'unavailable' && outcome.retryAfterSeconds !== undefined;
    return { failed: refreshed.grant, ofApp: isLimit || outcome.kind === 'app_fault' };
  };

  /**
   * If a check throws, the connection is checked in the next round; if the storage is unavailable, the part is
   * repeated.
   */
  const checkOrSkip = (...parameters: Parameters<typeof check>): Promise<Result> =>
    check(...parameters).catch((error: unknown) => {
      if (error instanceof AppError && error.code === 'storage_unavailable') throw error;
      return 'not_due';
    });

  /**
   * Checks the connections concurrently, and returns those that were deferred.
   * @param isRetry checks only those whose last refresh failed in an outage
   */
  const checkAll = async (connections: readonly ListedConnection[], options: CheckOptions, isRetry: boolean) => {
    const results = await Promise.all(
      connections.map(async (connection) => ({
        connection,
        result: await checkOrSkip(connection, options, isRetry),
      })),
    );
    const workingApps = new Set(
      results.filter(({ result }) => result === 'checked').map(({ connection }) => connection.appId),
    );
    for (const { connection, result } of results) {
      const { appId } = connection;
      // If the provider accepts other grants, only this one fails.
      if (typeof result === 'object' && (result.ofApp || !workingApps.has(appId)))
        failedGrants.set(appId, result.failed);
    }
    return results.filter(({ result }) => result === 'deferred').map(({ connection }) => connection);
  };

  const loadProgress = async (appId: string): Promise<ReadProgress> => {
    const stored = await store.get(keys.connectionCheck(appId));
    const progress: ReadProgress = stored
      ? JSON.parse(stored.value)
      : { at: clock() - pauseMs, backlog: 0, deferred: [], size: 0, countedAt: 0 };
    // SQLite takes long to count a long list, so the list is counted once per round.
    const isCounted = progress.after !== undefined && clock() - progress.countedAt < roundMs;
    return isCounted
      ? progress
      : { ...progress, size: await store.count(keys.connections('app', appId)), countedAt: clock() };
  };

  /**
   * Reads up to `limit` members of an app's list, in order.
   * @param after the `next` of the last page; undefined for the first page
   */
  const readList = async (appId: string, after: string | undefined, limit: number) => {
    const options = after === undefined ? { limit } : { limit, after };
    const { items, next } = await store.page(keys.connections('app', appId), options);
    return { members: items.map(({ member }) => member), next };
  };

  /** Checks the next part of an app's list: the share of a round that has passed since the last part. */
  const checkNext = async (app: ConnectedApp, progress: ReadProgress, { options, isOver }: Turn): Promise<void> => {
    const { size } = progress;
    if (size === 0) return;
    const backlog = Math.min(size, progress.backlog + (size * Math.max(0, clock() - progress.at)) / roundMs);
    const due = Math.min(MAX_BATCH, Math.ceil(backlog));
    let { after, deferred } = progress;
    let read = 0;
    let limit = 1;
    while (!isOver() && !isUnavailable(app.id) && (deferred.length > 0 || read < due)) {
      let batch = deferred.slice(0, limit);
      deferred = deferred.slice(limit);
      if (batch.length === 0) {
        const { members, next } = await readList(app.id, after, Math.min(limit, due - read));
        batch = members;
        after = next;
        // The part ends with the list.
        read = next === undefined ? due : read + members.length;
      }
      const newlyDeferred = await checkAll(batch.map(connectionOf), options, false);
      deferred = [...newlyDeferred.map(memberOf), ...deferred];
      if (newlyDeferred.length > 0) break;
      limit = nextLimit(limit);
    }
    const unread = after === undefined ? 0 : backlog - read;
    const next: ReadProgress = { ...progress, after, at: clock(), backlog: unread, deferred };
    // Saved after the checks. If the process is killed before, they are repeated, but the grants are no longer idle.
    await store.write([
      { put: keys.connectionCheck(app.id), value: JSON.stringify(next), lifetimeSeconds: DAY_SECONDS },
    ]);
  };

  /** Checks connections of one app whose refresh failed, so that the end of an outage is noticed soon. */
  const checkFailed = async (connections: readonly ListedConnection[], { options, isOver }: Turn): Promise<void> => {
    let done = 0;
    let limit = 1;
    while (done < connections.length && !isOver()) {
      const batch = connections.slice(done, done + limit).filter(({ appId }) => !isUnavailable(appId));
      await checkAll(batch, options, true);
      done += limit;
      limit = nextLimit(limit);
    }
  };

  /** The cursor in the list of unverified connections. */
  let unverifiedAfter: string | undefined;

  /**
   * Reads the next part of the connections whose refresh failed, by app. Connections that are not checked now come in
   * the next round.
   */
  const nextFailed = async (): Promise<Map<string, ListedConnection[]>> => {
    const index = keys.connections('state', 'unverified');
    const options = { limit: MAX_BATCH, ...(unverifiedAfter !== undefined && { after: unverifiedAfter }) };
    const { items, next } = await store.page(index, options);
    unverifiedAfter = next;
    const reachable = items.map(({ member }) => connectionOf(member)).filter(({ appId }) => !isUnavailable(appId));
    return Map.groupBy(reachable, ({ appId }) => appId);
  };

  const work = async (options: CheckOptions, turn: TaskTurn): Promise<void> => {
    const pool = createFairPool({ slots: MAX_CONCURRENT_APPS, share: 1 });
    let failure: unknown;
    const checkApp = async (
      app: ConnectedApp,
      progress: ReadProgress,
      failedConnections: readonly ListedConnection[],
    ): Promise<void> => {
      const endsAt = performance.now() + MAX_WORK_MS;
      const appTurn: Turn = { options, isOver: () => turn.isOver() || performance.now() >= endsAt };
      try {
        await checkNext(app, progress, appTurn);
        await checkFailed(failedConnections, appTurn);
      } catch (error) {
        failure = error;
      }
    };
    try {
      // While the provider of one app is slow, the other apps are checked on time.
      while (!turn.isOver() && failure === undefined) {
        const idle = apps.list().filter(({ id, disabled }) => !disabled && !isUnavailable(id) && pool.load(id) === 0);
        const waiting = await Promise.all(idle.map(async (app) => ({ app, progress: await loadProgress(app.id) })));
        const failedByApp = await nextFailed();
        // The app that has waited longest comes first.
        for (const { app, progress } of waiting.toSorted((a, b) => a.progress.at - b.progress.at)) {
          pool.add(app.id, async () => {
            await checkApp(app, progress, failedByApp.get(app.id) ?? []);
            return true;
          });
        }
        await Promise.race([pool.idle(), sleep(pauseMs, undefined, { ref: false })]);
        if (pool.isIdle()) break;
      }
    } finally {
      await pool.stop();
    }
    if (failure !== undefined) throw failure;
  };

  return (options) =>
    seconds === 0
      ? []
      : [{ name: 'check-connections', everyMilliseconds: pauseMs, work: (turn) => work(options, turn) }];
}

/** Returns the double of the last batch. The first batch is one, so that an unavailable provider gets only one call. */
const nextLimit = (limit: number): number => Math.min(MAX_CONCURRENT, 2 * limit);
