/** Lists connections: all, by app and by state. The lists are written after the grants, and may lag behind them. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { remembered } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import { type MatchingPage, matchingPage } from '../../shared/storage/matching-page.ts';
import { allPages, encodeCursor } from '../../shared/storage/paging.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { StoredGrant } from './grant.ts';
import { EXPIRING_MS, type Grant, grantForApp, type Health } from './grant.ts';

export interface ListedConnection {
  userId: string;
  appId: string;
}

/**
 * `unrenewable`: no refresh token; the score is when the access token expires. `unverified`: the score is when the
 * health becomes `unverified`, which is in the future while the access token still works.
 */
type ConnectionState = 'active' | 'unverified' | 'reconnect_needed' | 'unrenewable';
const STATES: readonly ConnectionState[] = ['active', 'unverified', 'reconnect_needed', 'unrenewable'];
/** The list of connections that may lack scopes of their app, whatever their state is. */
const LACKING = 'lacking';

const BATCH = 500;
/** Bounds the work for one page of an app and a state: few connections in the state may belong to the app. */
const MAX_READ = 10_000;
const MAX_REMEMBERED = 20_000;

interface IndexFilter {
  appId?: string | undefined;
  state?: ConnectionState | typeof LACKING | undefined;
}

export interface ConnectionIndex {
  /** Adds the connection of a saved grant to its lists, or moves it to others. */
  update(grant: Grant, saved?: Saved): Promise<void>;

  /** Removes a connection from every list. */
  drop(connection: ListedConnection): Promise<void>;

  /**
   * Returns a page of connections, newest first. The first of `userId`, `state` and `appId` that is given chooses the
   * index; `appId` then filters it, so a page may have fewer items than the limit. A cursor never names a connection of
   * an app that is not in `apps`.
   */
  page(
    request: IndexFilter & {
      after?: string | undefined;
      limit: number;
      userId?: string | undefined;
      apps?: readonly string[] | undefined;
    },
  ): Promise<MatchingPage<ListedConnection>>;

  /**
   * Counts the connections that `page` lists; undefined for one app in one state, since they could only be counted by
   * reading them.
   */
  total(request: IndexFilter): Promise<number | undefined>;

  /** Returns the oldest connections of an app, if they were created by `until`. */
  oldest(appId: string, limit: number, until: number): Promise<ListedConnection[]>;

  count(appId?: string): Promise<number>;
  countByHealth(): Promise<Record<Health, number>>;

  /**
   * Moves connections that have expired and cannot be renewed to `reconnect_needed`. Removes those that do not exist.
   */
  updateExpired(load: (userId: string, appId: string) => Promise<StoredGrant | undefined>): Promise<void>;
}

/** @param parts `findApp`: a grant that its app may not use is listed as `reconnect_needed` */
export function createConnectionIndex(parts: {
  store: Store;
  clock: () => number;
  findApp?: (appId: string) => ConnectedApp | undefined;
}): ConnectionIndex {
  const { store, clock, findApp } = parts;
  const entryFor = (grant: Grant): Entry => {
    const app = findApp?.(grant.appId);
    return entryOf(app ? grantForApp(app, grant) : grant);
  };

  // The last entries that this process wrote, so that a refresh that does not change its entry costs no write. If
  // another process wrote a version in between, it may have moved the connection, so the entry is written again.
  const lastEntries = remembered<{ entry: string; version: number | undefined }>(MAX_REMEMBERED);
  const lacking = keys.connections('state', LACKING);

  const update = async (
    connection: ListedConnection,
    { state, score, connectedAt, lacksScopes }: Entry,
    saved?: Saved,
  ): Promise<void> => {
    const member = memberOf(connection);
    const entry = `${state} ${score} ${connectedAt} ${lacksScopes}`;
    const lastEntry = lastEntries.get(member);
    const next = { entry, version: saved?.version };
    if (saved && lastEntry?.entry === entry && lastEntry.version === saved.replacedVersion) {
      lastEntries.set(member, next);
      return;
    }
    await store.write([
      { index: keys.connections('all'), add: member, score: connectedAt },
      { index: keys.connections('app', connection.appId), add: member, score: connectedAt },
      ...STATES.map((listState) => {
        const index = keys.connections('state', listState);
        return listState === state ? { index, add: member, score } : { index, remove: member };
      }),
      lacksScopes ? { index: lacking, add: member, score: connectedAt } : { index: lacking, remove: member },
    ]);
    lastEntries.set(member, next);
  };

  const drop = async (connection: ListedConnection): Promise<void> => {
    const member = memberOf(connection);
    lastEntries.delete(member);
    await store.write([
      { index: keys.connections('all'), remove: member },
      { index: keys.connections('app', connection.appId), remove: member },
      ...[...STATES, LACKING].map((state) => ({ index: keys.connections('state', state), remove: member })),
    ]);
  };

  /** Returns the unrenewable connections that expire by that time. */
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

  const countIn = (state: ConnectionState, upTo?: number) => store.count(keys.connections('state', state), upTo);

  /** Returns a cursor that excludes connections that become unverified later, when their access token expires. */
  const cursorOfNow = () => encodeCursor({ score: clock() + 1, member: '' });

  return {
    update: (grant, saved) => update(grant, entryFor(grant), saved),
    drop,

    page(request) {
      const { after, limit, userId, appId, apps, state } = request;
      const filter = (connection: ListedConnection) =>
        (appId === undefined || connection.appId === appId) && apps?.includes(connection.appId) !== false;
      if (userId !== undefined) {
        return matchingPage(store, keys.grants(userId), { after, limit, filter }, async (app) => ({
          userId,
          appId: app,
        }));
      }
      const cursor = after ?? (state === 'unverified' ? cursorOfNow() : undefined);
      return matchingPage(
        store,
        indexOf({ appId, state }),
        { after: cursor, limit, filter, maxRead: MAX_READ },
        async (member) => connectionOf(member),
      );
    },

    total: async ({ appId, state }) =>
      appId !== undefined && state !== undefined
        ? undefined
        : store.count(indexOf({ appId, state }), state === 'unverified' ? clock() : undefined),

    async oldest(appId, limit, until) {
      const { items } = await store.page(keys.connections('app', appId), { limit });
      return items.filter(({ score }) => score <= until).map(({ member }) => connectionOf(member));
    },

    count: (appId) => store.count(appId === undefined ? keys.connections('all') : keys.connections('app', appId)),

    async countByHealth() {
      const now = clock();
      const [active, listedUnverified, unverified, reconnectNeeded, unrenewable, soon, expired] = await Promise.all([
        countIn('active'),
        countIn('unverified'),
        countIn('unverified', now),
        countIn('reconnect_needed'),
        countIn('unrenewable'),
        countIn('unrenewable', now + EXPIRING_MS),
        countIn('unrenewable', now),
      ]);
      // Connections that become unverified later still have an access token that works.
      const stillWorking = listedUnverified - unverified;
      return {
        active: active + stillWorking + unrenewable - soon,
        expiring: soon - expired,
        unverified,
        reconnect_needed: reconnectNeeded + expired,
      };
    },

    async updateExpired(load) {
      for (const { member } of await expiringBy(clock())) {
        const connection = connectionOf(member);
        const stored = await load(connection.userId, connection.appId);
        if (!stored) await drop(connection);
        else if ('grant' in stored && entryFor(stored.grant).state === 'unrenewable') {
          await update(connection, { ...entryFor(stored.grant), state: 'reconnect_needed' });
        }
      }
    },
  };
}

/** The version of a saved grant, and the one that it replaced. */
interface Saved {
  version: number;
  replacedVersion: number;
}

function indexOf({ appId, state }: IndexFilter): string {
  if (state !== undefined) return keys.connections('state', state);
  return appId === undefined ? keys.connections('all') : keys.connections('app', appId);
}

/** The position of a connection in the lists. */
interface Entry {
  state: ConnectionState;
  score: number;
  connectedAt: number;
  lacksScopes: boolean;
}

function entryOf(grant: Grant): Entry {
  const { connectedAt, announcedScopes = [], declinedScopes = [] } = grant;
  return { ...stateOf(grant), connectedAt, lacksScopes: announcedScopes.length + declinedScopes.length > 0 };
}

function stateOf({ failure, refreshToken, expiresAt, connectedAt }: Grant): Pick<Entry, 'state' | 'score'> {
  if (failure && failure.kind !== 'passing') return { state: failure.kind, score: failure.since };
  if (refreshToken === undefined && expiresAt !== undefined) return { state: 'unrenewable', score: expiresAt };
  const unverifiedFrom = failure?.tokenRefused ? failure.since : expiresAt;
  if (failure && unverifiedFrom !== undefined) {
    return { state: 'unverified', score: Math.max(failure.since, unverifiedFrom) };
  }
  return { state: 'active', score: connectedAt };
}

/** Returns the member of an index that stands for a connection. */
export function memberOf({ userId, appId }: ListedConnection): string {
  return JSON.stringify([userId, appId]);
}

export function connectionOf(member: string): ListedConnection {
  const [userId, appId] = JSON.parse(member) as [string, string];
  return { userId, appId };
}
