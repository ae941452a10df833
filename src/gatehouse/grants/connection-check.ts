/** Checks idle connections: refreshes each grant that was not refreshed for an interval, to find revoked ones. */
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
import { ifDue, isIdle, type Refresher } from './refresh.ts';

export interface CheckOptions {
  isDisabled: (userId: string) => Promise<boolean>;
  /** Charges the app's rate budget with one call. Returns the seconds to wait first, if any. */
  charge: (app: ConnectedApp) => Promise<number | undefined>;
}

/** How far the list of an app's connections was read. Times in milliseconds since the epoch. */
interface Place {
  after?: string | undefined;
  /** When it was read last. */
  at: number;
  /** Connections that should have been read by then and were not. */
  owed: number;
  /** Read, and left out because the app's budget was spent: checked before the list is read on. */
  again: readonly string[];
  /** The length of the list, which was counted at `countedAt`. */
  size: number;
  countedAt: number;
}

interface Turn extends TaskTurn {
  options: CheckOptions;
}

/** `left_out`: the app's budget is spent. `failed`: the provider is away, limits calls or refuses the app (`ofApp`). */
type Result = 'not_due' | 'left_out' | 'answered' | { failed: Grant; ofApp: boolean };

/** A grant is due after this part of the interval. A round reads a list once in a sixth; the rest is for delays. */
const DUE = 0.75;
const ROUNDS = 6;
const PAUSE_MS = { min: 1_000, max: 10_000 };
/** Of one app. */
const MAX_CONCURRENT = 16;
/** Apps that are checked at a time, each by itself. */
const PLACES = 16;
const MAX_BATCH = 1_000;
/** How far an app's list was read is stored at least so often. */
const MAX_WORK_MS = 5_000;
/** A connection that was not used for longer is left to expire. */
const MAX_UNUSED_MS = 90 * DAY_MS;

/** The scheduled task that checks idle connections, unless it is switched off. */
export type ConnectionChecks = (options: CheckOptions) => ScheduledTask[];

/** @param parts `seconds`: the interval; 0 for no checks */
export function createConnectionCheck(parts: {
  store: Store;
  grants: Pick<GrantStore, 'load' | 'lastUse'>;
  refresher: Pick<Refresher, 'attempt'>;
  missing: Pick<MissingScopes, 'announce'>;
  apps: Pick<CurrentApps, 'list' | 'find'>;
  seconds: number;
  clock: () => number;
}): ConnectionChecks {
  const { store, grants, refresher, missing, apps, seconds, clock } = parts;
  const roundMs = (seconds * 1000) / ROUNDS;
  const pauseMs = Math.max(PAUSE_MS.min, Math.min(PAUSE_MS.max, roundMs / 4));

  /** By app: a grant whose refresh failed when no other one succeeded. Its back-off is that of the app. */
  const failed = new Map<string, Grant>();
  const isAway = (appId: string): boolean => {
    const last = failed.get(appId);
    return last !== undefined && isBackingOff(last, clock());
  };

  const check = async (
    { userId, appId }: ListedConnection,
    options: CheckOptions,
    isRetry: boolean,
  ): Promise<Result> => {
    const app = apps.find(appId);
    if (!app || app.disabled) return 'not_due';
    const request = { userId, app, idleSince: clock() - seconds * 1000 * DUE };
    const stored = await grants.load(userId, app);
    await missing.announce(app, stored);
    const due = ifDue(stored, request, clock());
    if (!due || !isIdle(due.grant, request.idleSince)) return 'not_due';
    // A refusal without a clear reason may last for good, so that it is left to the next round.
    if (isRetry && due.grant.failure?.kind !== 'passing') return 'not_due';
    const usedAt = Math.max(due.grant.consentedAt, (await grants.lastUse(userId, appId)) ?? 0);
    if (clock() - usedAt > MAX_UNUSED_MS || (await options.isDisabled(userId))) return 'not_due';
    if ((await options.charge(app)) !== undefined) return 'left_out';
    const { stored: refreshed, outcome } = await refresher.attempt(request);
    const isFailed = outcome?.kind === 'unavailable' || outcome?.kind === 'app_fault';
    if (!isFailed || !refreshed || 'unreadable' in refreshed) return 'answered';
    const isLimit = outcome.kind === 'unavailable' && outcome.retryAfterSeconds !== undefined;
    return { failed: refreshed.grant, ofApp: isLimit || outcome.kind === 'app_fault' };
  };

  /** What a check that throws is left to: the next round; but where the storage is down, the same part is repeated. */
  const checkUnlessBroken = (...of: Parameters<typeof check>): Promise<Result> =>
    check(...of).catch((error: unknown) => {
      if (error instanceof AppError && error.code === 'storage_unavailable') throw error;
      return 'not_due';
    });

  /**
   * Checks these at the same time, and returns those that were left out.
   * @param isRetry checks only those whose last refresh failed in an outage
   */
  const checkAll = async (connections: readonly ListedConnection[], options: CheckOptions, isRetry: boolean) => {
    const checked = await Promise.all(
      connections.map(async (connection) => ({
        connection,
        result: await checkUnlessBroken(connection, options, isRetry),
      })),
    );
    const answering = new Set(
      checked.filter(({ result }) => result === 'answered').map(({ connection }) => connection.appId),
    );
    for (const { connection, result } of checked) {
      const { appId } = connection;
      // A provider that responds to others has a fault with this one alone.
      if (typeof result === 'object' && (result.ofApp || !answering.has(appId))) failed.set(appId, result.failed);
    }
    return checked.filter(({ result }) => result === 'left_out').map(({ connection }) => connection);
  };

  const placeOf = async (appId: string): Promise<Place> => {
    const stored = await store.get(keys.connectionCheck(appId));
    const place: Place = stored
      ? JSON.parse(stored.value)
      : { at: clock() - pauseMs, owed: 0, again: [], size: 0, countedAt: 0 };
    // Counting a long list takes an embedded database long, so it is counted once in a round.
    const isCounted = place.after !== undefined && clock() - place.countedAt < roundMs;
    return isCounted
      ? place
      : { ...place, size: await store.count(keys.connections('app', appId)), countedAt: clock() };
  };

  /** Up to `limit` members of an app's list, in the order of the list. @param after of the last page; undefined: the first */
  const readList = async (appId: string, after: string | undefined, limit: number) => {
    const options = after === undefined ? { limit } : { limit, after };
    const { items, next } = await store.page(keys.connections('app', appId), options);
    return { members: items.map(({ member }) => member), next };
  };

  /** Checks the next part of an app's list: as much of it as the time since the last part is of a round. */
  const checkNext = async (app: ConnectedApp, place: Place, { options, isOver }: Turn): Promise<void> => {
    const { size } = place;
    if (size === 0) return;
    const backlog = Math.min(size, place.owed + (size * Math.max(0, clock() - place.at)) / roundMs);
    const due = Math.min(MAX_BATCH, Math.ceil(backlog));
    let { after, again: deferred } = place;
    let read = 0;
    let limit = 1;
    while (!isOver() && !isAway(app.id) && (deferred.length > 0 || read < due)) {
      let batch = deferred.slice(0, limit);
      deferred = deferred.slice(limit);
      if (batch.length === 0) {
        const { members, next } = await readList(app.id, after, Math.min(limit, due - read));
        batch = members;
        after = next;
        // At the end of the list, the part is done.
        read = next === undefined ? due : read + members.length;
      }
      const leftOut = await checkAll(batch.map(connectionOf), options, false);
      deferred = [...leftOut.map(memberOf), ...deferred];
      if (leftOut.length > 0) break;
      limit = wider(limit);
    }
    const owed = after === undefined ? 0 : backlog - read;
    const next: Place = { ...place, after, at: clock(), owed, again: deferred };
    // Saved after the checks: those of a process that is killed are repeated, and find the grants no longer idle.
    await store.write([
      { put: keys.connectionCheck(app.id), value: JSON.stringify(next), lifetimeSeconds: DAY_SECONDS },
    ]);
  };

  /** Checks these connections of one app, whose refresh failed, so that the end of an outage is noticed soon. */
  const checkFailed = async (connections: readonly ListedConnection[], { options, isOver }: Turn): Promise<void> => {
    let done = 0;
    let limit = 1;
    while (done < connections.length && !isOver()) {
      const batch = connections.slice(done, done + limit).filter(({ appId }) => !isAway(appId));
      await checkAll(batch, options, true);
      done += limit;
      limit = wider(limit);
    }
  };

  /** The place in the list of connections in doubt. */
  let doubtsAfter: string | undefined;

  /** The next part of the connections whose refresh failed, by app. The next round meets what is not checked now. */
  const nextFailed = async (): Promise<Map<string, ListedConnection[]>> => {
    const index = keys.connections('state', 'unverified');
    const options = { limit: MAX_BATCH, ...(doubtsAfter !== undefined && { after: doubtsAfter }) };
    const { items, next } = await store.page(index, options);
    doubtsAfter = next;
    const reachable = items.map(({ member }) => connectionOf(member)).filter(({ appId }) => !isAway(appId));
    return Map.groupBy(reachable, ({ appId }) => appId);
  };

  const work = async (options: CheckOptions, turn: TaskTurn): Promise<void> => {
    const pool = createFairPool({ slots: PLACES, share: 1 });
    let failure: unknown;
    const checkApp = async (
      app: ConnectedApp,
      place: Place,
      isUnverified: readonly ListedConnection[],
    ): Promise<void> => {
      const endsAt = performance.now() + MAX_WORK_MS;
      const appTurn: Turn = { options, isOver: () => turn.isOver() || performance.now() >= endsAt };
      try {
        await checkNext(app, place, appTurn);
        await checkFailed(isUnverified, appTurn);
      } catch (error) {
        failure = error;
      }
    };
    try {
      // While the provider of one app is slow, the others are checked at their times.
      while (!turn.isOver() && failure === undefined) {
        const idle = apps.list().filter(({ id, disabled }) => !disabled && !isAway(id) && pool.load(id) === 0);
        const places = await Promise.all(idle.map(async (app) => ({ app, place: await placeOf(app.id) })));
        const isUnverified = await nextFailed();
        // The app that has waited longest comes first.
        for (const { app, place } of places.toSorted((one, other) => one.place.at - other.place.at)) {
          pool.add(app.id, async () => {
            await checkApp(app, place, isUnverified.get(app.id) ?? []);
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

/** One at first, then more, so that a provider that is away gets one call. */
const wider = (limit: number): number => Math.min(MAX_CONCURRENT, 2 * limit);
