/** Lists of connections: all, by app and by state. They are written after the grants and may lag behind them. */
import { remembered } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import { matchingPage } from '../storage/matching-page.ts';
import { allPages } from '../storage/paging.ts';
import type { Store } from '../storage/store.ts';
import { EXPIRING_MS, type Grant, type Health } from './grant.ts';
import type { StoredGrant } from './grant-store.ts';

export interface ListedConnection {
  userId: string;
  appId: string;
}

/**
 * `unrenewable`: no refresh token; its score is the time at which the access token expires. `in_doubt`: its score is the
 * time from which the connection is in doubt, later than now while its access token still works.
 */
type ConnectionState = 'active' | 'in_doubt' | 'reconnect_needed' | 'unrenewable';
const STATES: readonly ConnectionState[] = ['active', 'in_doubt', 'reconnect_needed', 'unrenewable'];

const BATCH = 500;
const MAX_REMEMBERED = 20_000;

export type ConnectionIndex = ReturnType<typeof createConnectionIndex>;

export function createConnectionIndex({ store, clock }: { store: Store; clock: () => number }) {
  // The place in the lists that this process wrote last, so that a refresh which does not change it costs no write.
  const listed = remembered<string>(MAX_REMEMBERED);

  const update = async (connection: ListedConnection, { state, score, connectedAt }: Place): Promise<void> => {
    const member = memberOf(connection);
    const place = `${state} ${score} ${connectedAt}`;
    if (listed.get(member) === place) return;
    await store.write([
      { index: keys.connections('all'), add: member, score: connectedAt },
      { index: keys.connections('app', connection.appId), add: member, score: connectedAt },
      ...STATES.map((one) => {
        const index = keys.connections('state', one);
        return one === state ? { index, add: member, score } : { index, remove: member };
      }),
    ]);
    listed.set(member, place);
  };

  const drop = async (connection: ListedConnection): Promise<void> => {
    const member = memberOf(connection);
    listed.delete(member);
    await store.write([
      { index: keys.connections('all'), remove: member },
      { index: keys.connections('app', connection.appId), remove: member },
      ...STATES.map((one) => ({ index: keys.connections('state', one), remove: member })),
    ]);
  };

  /** How many are listed as in doubt although their access token still works. */
  const countStillWorking = async (now: number): Promise<number> => {
    const index = keys.connections('state', 'in_doubt');
    let count = 0;
    for await (const items of allPages((options) => store.page(index, { ...options, order: 'descending' }), BATCH)) {
      const working = items.filter(({ score }) => score > now).length;
      count += working;
      if (working < items.length) break;
    }
    return count;
  };

  /** Unrenewable connections that expire by that time. */
  const expiringBy = async (time: number) => {
    const expiring: { member: string; score: number }[] = [];
    const index = keys.connections('state', 'unrenewable');
    for await (const items of allPages((options) => store.page(index, options), BATCH)) {
      const due = items.filter(({ score }) => score <= time);
      expiring.push(...due);
      if (due.length < items.length) break;
    }
    return expiring;
  };

  const countIn = (state: ConnectionState) => store.count(keys.connections('state', state));

  return {
    /** Adds or moves a saved grant. */
    update: (grant: Grant) => update(grant, placeOf(grant)),

    /** Removes a connection from every list. */
    drop,

    /**
     * Newest first. Only one of `userId`, `state` and `appId` uses its index, in this order; `appId` filters the others.
     * A cursor names no connection of an app that is not among `apps`.
     */
    page(request: {
      after?: string | undefined;
      limit: number;
      userId?: string | undefined;
      appId?: string | undefined;
      apps?: readonly string[] | undefined;
      state?: ConnectionState | undefined;
    }) {
      const { after, limit, userId, appId, apps, state } = request;
      const filter = (one: ListedConnection) =>
        (appId === undefined || one.appId === appId) && apps?.includes(one.appId) !== false;
      if (userId !== undefined) {
        return matchingPage(store, keys.grants(userId), { after, limit, filter }, async (app) => ({
          userId,
          appId: app,
        }));
      }
      const index =
        state !== undefined
          ? keys.connections('state', state)
          : appId !== undefined
            ? keys.connections('app', appId)
            : keys.connections('all');
      return matchingPage(store, index, { after, limit, filter }, async (member) => connectionOf(member));
    },

    /** The oldest connections of an app that were made by that time. */
    async oldest(appId: string, limit: number, until: number): Promise<ListedConnection[]> {
      const { items } = await store.page(keys.connections('app', appId), { limit });
      return items.filter(({ score }) => score <= until).map(({ member }) => connectionOf(member));
    },

    count: (appId?: string) =>
      store.count(appId === undefined ? keys.connections('all') : keys.connections('app', appId)),

    async countByHealth(): Promise<Record<Health, number>> {
      const now = clock();
      const [active, inDoubt, stillWorking, reconnectNeeded, unrenewable, soon] = await Promise.all([
        countIn('active'),
        countIn('in_doubt'),
        countStillWorking(now),
        countIn('reconnect_needed'),
        countIn('unrenewable'),
        expiringBy(now + EXPIRING_MS),
      ]);
      const expired = soon.filter(({ score }) => score <= now).length;
      return {
        active: active + stillWorking + unrenewable - soon.length,
        expiring: soon.length - expired,
        in_doubt: inDoubt - stillWorking,
        reconnect_needed: reconnectNeeded + expired,
      };
    },

    /** Removes connections that no longer exist, and moves expired ones to `reconnect_needed`. */
    async settle(load: (userId: string, appId: string) => Promise<StoredGrant | undefined>): Promise<void> {
      for (const { member } of await expiringBy(clock())) {
        const connection = connectionOf(member);
        const stored = await load(connection.userId, connection.appId);
        if (!stored) await drop(connection);
        else if ('grant' in stored && placeOf(stored.grant).state === 'unrenewable') {
          await update(connection, { ...placeOf(stored.grant), state: 'reconnect_needed' });
        }
      }
    },
  };
}

interface Place {
  state: ConnectionState;
  score: number;
  connectedAt: number;
}

function placeOf(grant: Grant): Place {
  const { failure, refreshToken, expiresAt, connectedAt } = grant;
  if (failure && failure.kind !== 'passing') return { state: failure.kind, score: failure.since, connectedAt };
  if (refreshToken === undefined && expiresAt !== undefined) {
    return { state: 'unrenewable', score: expiresAt, connectedAt };
  }
  const doubtedFrom = failure?.tokenRefused ? failure.since : expiresAt;
  if (failure && doubtedFrom !== undefined) {
    return { state: 'in_doubt', score: Math.max(failure.since, doubtedFrom), connectedAt };
  }
  return { state: 'active', score: connectedAt, connectedAt };
}

/** The member of an index that stands for a connection. */
export function memberOf({ userId, appId }: ListedConnection): string {
  return JSON.stringify([userId, appId]);
}

export function connectionOf(member: string): ListedConnection {
  const [userId, appId] = JSON.parse(member) as [string, string];
  return { userId, appId };
}
