/** Owns the lists of all connections: of everybody, of one app, and of each state, written beside the grants. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import type { Grant, Health } from './grant.ts';
import type { GrantStore } from './grant-store.ts';

export interface ListedConnection {
  userId: string;
  appId: string;
}

export interface ConnectionIndex {
  /** The same store; what it saves and removes is listed. */
  listed(grants: GrantStore): GrantStore;
  /** The one made last first; `appId` or `state` alone narrows it. */
  page(request: {
    after?: string | undefined;
    limit: number;
    appId?: string | undefined;
    state?: ConnectionState | undefined;
  }): Promise<{ items: ListedConnection[]; next?: string }>;
  /** Of one app, the one made first first, up to that time. */
  oldest(appId: string, limit: number, until: number): Promise<ListedConnection[]>;
  /** Takes out of the lists what is not there any more. */
  drop(connection: ListedConnection): Promise<void>;
  count(appId?: string): Promise<number>;
  /** How many connections are how healthy. */
  countByHealth(): Promise<Record<Health, number>>;
  /** Drops what is listed and not there any more, and moves to `reconnect_needed` what has run out. */
  settle(grants: GrantStore): Promise<void>;
}

/** `unrenewable`: well until its access token ends, which is its place in the list. */
export type ConnectionState = 'active' | 'in_doubt' | 'reconnect_needed' | 'unrenewable';
const STATES: readonly ConnectionState[] = ['active', 'in_doubt', 'reconnect_needed', 'unrenewable'];

const EXPIRING_MILLISECONDS = 600_000;
const BATCH = 500;
const MOST_KNOWN = 20_000;

export function createConnectionIndex({ store, clock }: { store: Store; clock: () => number }): ConnectionIndex {
  // What this process has listed last: a refresh that changes nothing here costs no write.
  const known = new Map<string, string>();

  const list = async (member: string, appId: string, { state, score, connectedAt }: Place): Promise<void> => {
    const text = `${state} ${score} ${connectedAt}`;
    if (known.get(member) === text) return;
    await store.write([
      { index: keys.connections('all'), add: member, score: connectedAt },
      { index: keys.connections('app', appId), add: member, score: connectedAt },
      ...STATES.map((one) => {
        const index = keys.connections('state', one);
        return one === state ? { index, add: member, score } : { index, remove: member };
      }),
    ]);
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(member, text);
  };

  const unlist = async (member: string, appId: string): Promise<void> => {
    known.delete(member);
    await store.write([
      { index: keys.connections('all'), remove: member },
      { index: keys.connections('app', appId), remove: member },
      ...STATES.map((one) => ({ index: keys.connections('state', one), remove: member })),
    ]);
  };

  /** Members of the list of those that cannot be renewed, up to that time of ending. */
  const endingBefore = async (time: number): Promise<string[]> => {
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
    listed: (grants) => ({
      ...grants,
      async save(grant, ifVersion, fence) {
        const saved = await grants.save(grant, ifVersion, fence);
        // The grant is what counts: a list that lags behind is put right by the next save, or when it is looked at.
        if (saved) await list(memberOf(grant), grant.appId, placeOf(grant)).catch(() => undefined);
        return saved;
      },
      async remove(userId, appId, ifVersion) {
        const removed = await grants.remove(userId, appId, ifVersion);
        if (removed) await unlist(memberOf({ userId, appId }), appId).catch(() => undefined);
        return removed;
      },
    }),

    async page({ after, limit, appId, state }) {
      const index =
        state !== undefined
          ? keys.connections('state', state)
          : appId !== undefined
            ? keys.connections('app', appId)
            : keys.connections('all');
      const page = await store.page(index, { limit, order: 'descending', ...(after === undefined ? {} : { after }) });
      const items = page.items.map(({ member }) => connectionOf(member));
      return page.next === undefined ? { items } : { items, next: page.next };
    },

    async oldest(appId, limit, until) {
      const { items } = await store.page(keys.connections('app', appId), { limit });
      return items.filter(({ score }) => score <= until).map(({ member }) => connectionOf(member));
    },

    drop: (connection) => unlist(memberOf(connection), connection.appId),

    count: (appId) => store.count(appId === undefined ? keys.connections('all') : keys.connections('app', appId)),

    async countByHealth() {
      const [active = 0, doubtful = 0, ended = 0, unrenewable = 0] = await Promise.all(
        STATES.map((state) => store.count(keys.connections('state', state))),
      );
      const [over, soon] = await Promise.all([clock(), clock() + EXPIRING_MILLISECONDS].map(endingBefore));
      const [gone, expiring] = [over?.length ?? 0, (soon?.length ?? 0) - (over?.length ?? 0)];
      return {
        active: active + unrenewable - gone - expiring,
        expiring,
        in_doubt: doubtful,
        reconnect_needed: ended + gone,
      };
    },

    async settle(grants) {
      for (const member of await endingBefore(clock())) {
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
