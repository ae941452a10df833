/** Checks idle connections: refreshes each grant that was not refreshed for an interval, so that a revoked one is found. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { Chore } from '../storage/chore.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { DAY_MS } from '../time.ts';
import { connectionOf, type ListedConnection } from './connection-index.ts';
import { type Grant, isBackingOff } from './grant.ts';
import type { GrantStore } from './grant-store.ts';
import type { Refresher } from './refresh.ts';
import { isIdle } from './refresh-state.ts';

interface Options {
  /** 0: no checks. */
  seconds: number;
  isDisabled: (userId: string) => Promise<boolean>;
  /** Charges the app's rate budget with one call. Returns the seconds to wait first, if any. */
  charge: (app: ConnectedApp, userId: string) => Promise<number | undefined>;
}

/** The place in the list of connections, whose size was counted at `countedAt`. Times in milliseconds since the epoch. */
interface Progress {
  after?: string | undefined;
  /** When the place was reached. */
  at: number;
  size?: number;
  countedAt?: number;
}

/** A round reads the list of all connections once. With a grant due after three quarters, none waits longer than the interval. */
const ROUNDS = 4;
const PAUSE_MS = { min: 1_000, max: 10_000 };
const MAX_CONCURRENT = 16;
const MAX_BATCH = 1_000;
/** A shutdown waits for the batch, so it starts no further check after this time. */
const MAX_BATCH_MS = 5_000;
/** A connection that was not used for longer is left to expire. */
const MAX_UNUSED_MS = 90 * DAY_MS;

export function createConnectionCheck(parts: {
  store: Store;
  grants: Pick<GrantStore, 'load' | 'lastUse'>;
  refresher: Pick<Refresher, 'attempt'>;
  findApp: (id: string) => ConnectedApp | undefined;
  clock: () => number;
}) {
  const { store, grants, refresher, findApp, clock } = parts;
  const index = keys.connections('all');

  /** By app: the last grant whose refresh failed because the provider was away, limits its calls, or refuses the app. */
  const failed = new Map<string, Grant>();

  const check = async ({ userId, appId }: ListedConnection, options: Options): Promise<void> => {
    const app = findApp(appId);
    if (!app || app.disabled) return;
    const last = failed.get(appId);
    if (last && isBackingOff(last, clock())) return;
    const idleSince = clock() - options.seconds * 1000 * (1 - 1 / ROUNDS);
    const stored = await grants.load(userId, appId);
    if (!stored || 'unreadable' in stored || !isIdle(stored.grant, idleSince)) return;
    const usedAt = Math.max(stored.grant.consentedAt, (await grants.lastUse(userId, appId)) ?? 0);
    if (clock() - usedAt > MAX_UNUSED_MS || (await options.isDisabled(userId))) return;
    // Where the budget is spent, the next round tries again.
    if ((await options.charge(app, userId)) !== undefined) return;
    const { stored: refreshed, outcome } = await refresher.attempt({ userId, app, idleSince });
    const isAway = outcome?.kind === 'unavailable' || outcome?.kind === 'app_fault';
    if (isAway && refreshed && 'grant' in refreshed) failed.set(appId, refreshed.grant);
  };

  /** Checks the next part of the list: as much of it as the time since the last part is of a round. */
  const checkNext = async (options: Options): Promise<void> => {
    const roundMs = (options.seconds * 1000) / ROUNDS;
    const stored = await store.get(keys.connectionCheck);
    const progress: Progress = stored ? JSON.parse(stored.value) : { at: clock() - pauseOf(options) };
    const share = Math.min(1, Math.max(0, clock() - progress.at) / roundMs);
    // Counting a long list takes an embedded database long, so it is counted once in a round.
    const isCounted = progress.after !== undefined && clock() - (progress.countedAt ?? 0) < roundMs;
    const { size = 0, countedAt } = isCounted ? progress : { size: await store.count(index), countedAt: clock() };
    if (size === 0) return;
    let left = Math.min(MAX_BATCH, Math.ceil(share * size));
    const endsAt = performance.now() + MAX_BATCH_MS;
    let { after } = progress;
    while (left > 0 && performance.now() < endsAt) {
      const limit = Math.min(left, MAX_CONCURRENT);
      const page = await store.page(index, after === undefined ? { limit } : { limit, after });
      // One that fails is checked in the next round.
      await Promise.allSettled(page.items.map(({ member }) => check(connectionOf(member), options)));
      after = page.next;
      left = after === undefined ? 0 : left - limit;
    }
    // Saved after the checks: those of a process that is killed are repeated, and find the grants no longer idle.
    await store.write([{ put: keys.connectionCheck, value: JSON.stringify({ after, at: clock(), size, countedAt }) }]);
  };

  return (options: Options): Chore[] =>
    options.seconds === 0
      ? []
      : [{ name: 'check-connections', everyMilliseconds: pauseOf(options), work: () => checkNext(options) }];
}

function pauseOf({ seconds }: Options): number {
  return Math.max(PAUSE_MS.min, Math.min(PAUSE_MS.max, (seconds * 1000) / (5 * ROUNDS)));
}
