/** Lists of connections: all, by app and by state. They are written after the grants and may lag behind them. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { remembered } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import { type MatchingPage, matchingPage } from '../../shared/storage/matching-page.ts';
import { allPages, encodeCursor } from '../../shared/storage/paging.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { StoredGrant } from './grant.ts';
import { EXPIRING_MS, type Grant, type Health, seenBy } from './grant.ts';

export interface ListedConnection {
  userId: string;
  appId: string;
}

/**
 * `unrenewable`: no refresh token; its score is the time at which the access token expires. `unverified`: its score is the
 * time from which the connection is in doubt, later than now while its access token still works.
 */
type ConnectionState = 'active' | 'unverified' | 'reconnect_needed' | 'unrenewable';
const STATES: readonly ConnectionState[] = ['active', 'unverified', 'reconnect_needed', 'unrenewable'];
/** A list beside those of the states: connections that may lack scopes of their app. */
const LACKING = 'lacking';

const BATCH = 500;
/** Of one app in a state that many connections are in, few may be found. */
const MAX_READ = 10_000;
const MAX_REMEMBERED = 20_000;

interface Narrowing {
  appId?: string | undefined;
  state?: ConnectionState | typeof LACKING | undefined;
}

export interface ConnectionIndex {
  /** Adds or moves a saved grant. */
  update(grant: Grant, saved?: Saved): Promise<void>;

  /** Removes a connection from every list. */
  drop(connection: ListedConnection): Promise<void>;

  /**
   * Newest first. Only one of `userId`, `state` and `appId` uses its index, in this order; `appId` filters the others, and a
   * page may then have fewer items than the limit.
   * A cursor names no connection of an app that is not among `apps`.
   */
  page(
    request: Narrowing & {
      after?: string | undefined;
      limit: number;
      userId?: string | undefined;
      apps?: readonly string[] | undefined;
    },
  ): Promise<MatchingPage<ListedConnection>>;

  /** How many `page` lists; undefined for those of one app in a state, which would have to be read. */
  total(request: Narrowing): Promise<number | undefined>;

  /** The oldest connections of an app that were made by that time. */
  oldest(appId: string, limit: number, until: number): Promise<ListedConnection[]>;

  count(appId?: string): Promise<number>;
  countByHealth(): Promise<Record<Health, number>>;

  /** Removes connections that no longer exist, and moves expired ones to `reconnect_needed`. */
  updateExpired(load: (userId: string, appId: string) => Promise<StoredGrant | undefined>): Promise<void>;
}

/** @param parts `findApp`: a grant that its app may not use is listed as one that needs reconnecting */
export function createConnectionIndex(parts: {
  store: Store;
  clock: () => number;
  findApp?: (appId: string) => ConnectedApp | undefined;
}): ConnectionIndex {
  const { store, clock, findApp } = parts;
  const placeOfGrant = (grant: Grant): Place => {
    const app = findApp?.(grant.appId);
    return placeOf(app ? seenBy(app, grant) : grant);
  };

  // The place in the lists of the version that this process saved last, so that a refresh which does not change it costs no
  // write. Over a version of another process, which may have moved the connection, the place is written again.
  const listed = remembered<{ place: string; version: number | undefined }>(MAX_REMEMBERED);
  const lacking = keys.connections('state', LACKING);

  const update = async (
    connection: ListedConnection,
    { state, score, connectedAt, isLacking }: Place,
    saved?: Saved,
  ): Promise<void> => {
    const member = memberOf(connection);
    const place = `${state} ${score} ${connectedAt} ${isLacking}`;
    const last = listed.get(member);
    const next = { place, version: saved?.version };
    if (saved && last?.place === place && last.version === saved.over) {
      listed.set(member, next);
      return;
    }
    await store.write([
      { index: keys.connections('all'), add: member, score: connectedAt },
      { index: keys.connections('app', connection.appId), add: member, score: connectedAt },
      ...STATES.map((one) => {
        const index = keys.connections('state', one);
        return one === state ? { index, add: member, score } : { index, remove: member };
      }),
      isLacking ? { index: lacking, add: member, score: connectedAt } : { index: lacking, remove: member },
    ]);
    listed.set(member, next);
  };

  const drop = async (connection: ListedConnection): Promise<void> => {
    const member = memberOf(connection);
    listed.delete(member);
    await store.write([
      { index: keys.connections('all'), remove: member },
      { index: keys.connections('app', connection.appId), remove: member },
      ...[...STATES, LACKING].map((one) => ({ index: keys.connections('state', one), remove: member })),
    ]);
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

  const countIn = (state: ConnectionState, upTo?: number) => store.count(keys.connections('state', state), upTo);

  /** Connections in doubt whose access token still works are listed for a later time. */
  const untilNow = () => encodeCursor({ score: clock() + 1, member: '' });

  return {
    update: (grant, saved) => update(grant, placeOfGrant(grant), saved),
    drop,

    page(request) {
      const { after, limit, userId, appId, apps, state } = request;
      const filter = (one: ListedConnection) =>
        (appId === undefined || one.appId === appId) && apps?.includes(one.appId) !== false;
      if (userId !== undefined) {
        return matchingPage(store, keys.grants(userId), { after, limit, filter }, async (app) => ({
          userId,
          appId: app,
        }));
      }
      const from = after ?? (state === 'unverified' ? untilNow() : undefined);
      return matchingPage(
        store,
        indexOf({ appId, state }),
        { after: from, limit, filter, maxRead: MAX_READ },
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
      const [active, listedInDoubt, isUnverified, reconnectNeeded, unrenewable, soon, expired] = await Promise.all([
        countIn('active'),
        countIn('unverified'),
        countIn('unverified', now),
        countIn('reconnect_needed'),
        countIn('unrenewable'),
        countIn('unrenewable', now + EXPIRING_MS),
        countIn('unrenewable', now),
      ]);
      // Those listed for a later time still have an access token that works.
      const stillWorking = listedInDoubt - isUnverified;
      return {
        active: active + stillWorking + unrenewable - soon,
        expiring: soon - expired,
        unverified: isUnverified,
        reconnect_needed: reconnectNeeded + expired,
      };
    },

    async updateExpired(load) {
      for (const { member } of await expiringBy(clock())) {
        const connection = connectionOf(member);
        const stored = await load(connection.userId, connection.appId);
        if (!stored) await drop(connection);
        else if ('grant' in stored && placeOfGrant(stored.grant).state === 'unrenewable') {
          await update(connection, { ...placeOfGrant(stored.grant), state: 'reconnect_needed' });
        }
      }
    },
  };
}

/** The version of a saved grant, and the one that it replaced. */
interface Saved {
  version: number;
  over: number;
}

function indexOf({ appId, state }: Narrowing): string {
  if (state !== undefined) return keys.connections('state', state);
  return appId === undefined ? keys.connections('all') : keys.connections('app', appId);
}

interface Place {
  state: ConnectionState;
  score: number;
  connectedAt: number;
  isLacking: boolean;
}

function placeOf(grant: Grant): Place {
  const { connectedAt, announcedScopes = [], declinedScopes = [] } = grant;
  return { ...stateOf(grant), connectedAt, isLacking: announcedScopes.length + declinedScopes.length > 0 };
}

function stateOf({ failure, refreshToken, expiresAt, connectedAt }: Grant): Pick<Place, 'state' | 'score'> {
  if (failure && failure.kind !== 'passing') return { state: failure.kind, score: failure.since };
  if (refreshToken === undefined && expiresAt !== undefined) return { state: 'unrenewable', score: expiresAt };
  const doubtedFrom = failure?.tokenRefused ? failure.since : expiresAt;
  if (failure && doubtedFrom !== undefined) {
    return { state: 'unverified', score: Math.max(failure.since, doubtedFrom) };
  }
  return { state: 'active', score: connectedAt };
}

/** The member of an index that stands for a connection. */
export function memberOf({ userId, appId }: ListedConnection): string {
  return JSON.stringify([userId, appId]);
}

export function connectionOf(member: string): ListedConnection {
  const [userId, appId] = JSON.parse(member) as [string, string];
  return { userId, appId };
}
