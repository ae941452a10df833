/** Lists of connections: all, by app and by state. They are written after the grants and may lag behind them. */
import { remembered } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import { matchingPage } from '../storage/matching-page.ts';
import type { Store } from '../storage/store.ts';
import type { Grant, Health } from './grant.ts';
import type { GrantStore } from './grant-store.ts';

export interface ListedConnection {
  userId: string;
  appId: string;
}

export interface ConnectionIndex {
  /** Adds or moves a saved grant. */
  list(grant: Grant): Promise<void>;
  /** Newest first. @param request at most one of `appId` and `state` uses an index; with both, `appId` filters */
  page(request: {
    after?: string | undefined;
    limit: number;
    appId?: string | undefined;
    state?: ConnectionState | undefined;
  }): Promise<{ items: ListedConnection[]; next?: string }>;
  /** The oldest connections of an app that were made by that time. */
  oldest(appId: string, limit: number, until: number): Promise<ListedConnection[]>;
  /** Removes a connection from every list. */
  drop(connection: ListedConnection): Promise<void>;
  count(appId?: string): Promise<number>;
  countByHealth(): Promise<Record<Health, number>>;
  /** Removes connections that no longer exist, and moves expired ones to `reconnect_needed`. */
  settle(grants: Pick<GrantStore, 'load'>): Promise<void>;
}

/** `unrenewable`: no refresh token; its score is the time at which the access token expires. */
export type ConnectionState = 'active' | 'in_doubt' | 'reconnect_needed' | 'unrenewable';
const STATES: readonly ConnectionState[] = ['active', 'in_doubt', 'reconnect_needed', 'unrenewable'];

const EXPIRING_MS = 600_000;
const BATCH = 500;
const MAX_REMEMBERED = 20_000;

export function createConnectionIndex({ store, clock }: { store: Store; clock: () => number }): ConnectionIndex {
  // The place in the lists that this process wrote last, so that a refresh which does not change it costs no write.
  const listed = remembered<string>(MAX_REMEMBERED);

  const list = async (member: string, appId: string, { state, score, connectedAt }: Place): Promise<void> => {
    const place = `${state} ${score} ${connectedAt}`;
    if (listed.get(member) === place) return;
    await store.write([
      { index: keys.connections('all'), add: member, score: connectedAt },
      { index: keys.connections('app', appId), add: member, score: connectedAt },
      ...STATES.map((one) => {
        const index = keys.connections('state', one);
        return one === state ? { index, add: member, score } : { index, remove: member };
      }),
    ]);
    listed.set(member, place);
  };

  const unlist = async (member: string, appId: string): Promise<void> => {
    listed.delete(member);
    await store.write([
      { index: keys.connections('all'), remove: member },
      { index: keys.connections('app', appId), remove: member },
      ...STATES.map((one) => ({ index: keys.connections('state', one), remove: member })),
    ]);
  };

  /** Unrenewable connections that expire by that time. */
  const expiringBy = async (time: number): Promise<string[]> => {
    const members: string[] = [];
    let after: string | undefined;
    do {
      const index = keys.connections('state', 'unrenewable');
      const page = await store.page(index, { limit: BATCH, ...(after === undefined ? {} : { after }) });
      const due = page.items.filter(({ score }) => score <= time);
      members.push(...due.map(({ member }) => member));
      after = due.length < page.items.length ? undefined : page.next;
    } while (after !== undefined);
    return members;
  };

  return {
    list: (grant) => list(memberOf(grant), grant.appId, placeOf(grant)),

    page({ after, limit, appId, state }) {
      const index =
        state !== undefined
          ? keys.connections('state', state)
          : appId !== undefined
            ? keys.connections('app', appId)
            : keys.connections('all');
      const matches = (one: ListedConnection) => appId === undefined || one.appId === appId;
      return matchingPage(store, index, { after, limit, isMeant: matches }, async (member) => connectionOf(member));
    },

    async oldest(appId, limit, until) {
      const { items } = await store.page(keys.connections('app', appId), { limit });
      return items.filter(({ score }) => score <= until).map(({ member }) => connectionOf(member));
    },

    drop: (connection) => unlist(memberOf(connection), connection.appId),

    count: (appId) => store.count(appId === undefined ? keys.connections('all') : keys.connections('app', appId)),

    async countByHealth() {
      const [active = 0, inDoubt = 0, reconnectNeeded = 0, unrenewable = 0] = await Promise.all(
        STATES.map((state) => store.count(keys.connections('state', state))),
      );
      const now = clock();
      const [past, soon] = await Promise.all([expiringBy(now), expiringBy(now + EXPIRING_MS)]);
      const [expired, expiring] = [past.length, soon.length - past.length];
      return {
        active: active + unrenewable - expired - expiring,
        expiring,
        in_doubt: inDoubt,
        reconnect_needed: reconnectNeeded + expired,
      };
    },

    async settle(grants) {
      for (const member of await expiringBy(clock())) {
        const { userId, appId } = connectionOf(member);
        const stored = await grants.load(userId, appId);
        if (!stored) await unlist(member, appId);
        else if ('grant' in stored && placeOf(stored.grant).state === 'unrenewable') {
          await list(member, appId, { ...placeOf(stored.grant), state: 'reconnect_needed' });
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
  const { trouble, refreshToken, expiresAt, connectedAt } = grant;
  if (trouble && trouble.kind !== 'passing') return { state: trouble.kind, score: trouble.since, connectedAt };
  if (refreshToken === undefined && expiresAt !== undefined) {
    return { state: 'unrenewable', score: expiresAt, connectedAt };
  }
  return { state: 'active', score: connectedAt, connectedAt };
}

function memberOf({ userId, appId }: ListedConnection): string {
  return JSON.stringify([userId, appId]);
}

function connectionOf(member: string): ListedConnection {
  const [userId = '', appId = ''] = JSON.parse(member) as string[];
  return { userId, appId };
}
