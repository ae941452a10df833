/** Owns the list of all that are signed in: looked at one by one or by pages, counted, and rid of what has ended by itself. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import type { SessionUser } from './session-data.ts';
import { BEGIN_MILLISECONDS, type SessionRecords } from './session-record.ts';

export interface SessionIndex {
  /** A valid session, by the hash of its id, with when it was last used, to the minute; undefined where it is not valid. */
  look(hash: string): Promise<KnownSession | undefined>;
  /** Every valid session, the one begun last first. */
  page(request: { after?: string | undefined; limit: number }): Promise<{ items: KnownSession[]; next?: string }>;
  /** How many there are, give or take those that have ended by themselves of late. */
  count(): Promise<number>;
  /** Takes out of the list of all what has ended by itself. */
  sweep(): Promise<void>;
}

/** A valid session as administrators see it. Times in milliseconds since the epoch. */
export interface KnownSession {
  user: SessionUser;
  /** Names the session; opens nothing. */
  ref: string;
  startedAt: number;
  seenAt: number;
  browser: string | undefined;
  /** Where it signed in from. */
  address: string | undefined;
  /** The connected app that signed the user in. */
  app: string | undefined;
}

export function createSessionIndex(parts: {
  store: Store;
  records: Pick<SessionRecords, 'readHashed'>;
  clock: () => number;
}): SessionIndex {
  const { store, records, clock } = parts;

  const look = async (hash: string): Promise<KnownSession | undefined> => {
    const live = await records.readHashed(hash, { extend: false });
    if (!live?.data.user) return undefined;
    const { user, createdAt, browser, address, app } = live.data;
    return { user, ref: live.ref, startedAt: createdAt, seenAt: live.seenAt, browser, address, app };
  };

  return {
    look,
    count: () => store.count(keys.liveSessions),

    async page({ after, limit }) {
      const items: KnownSession[] = [];
      let cursor = after;
      for (;;) {
        const size = limit - items.length;
        const batch = await store.page(keys.liveSessions, {
          limit: size,
          order: 'descending',
          ...(cursor === undefined ? {} : { after: cursor }),
        });
        const found = await Promise.all(batch.items.map(({ member }) => look(member)));
        items.push(...found.filter((session) => session !== undefined));
        cursor = batch.next;
        if (cursor === undefined) return { items };
        if (items.length === limit) return { items, next: cursor };
      }
    },

    async sweep() {
      const old = clock() - BEGIN_MILLISECONDS;
      let after: string | undefined;
      do {
        const batch = await store.page(keys.liveSessions, { limit: 200, ...(after === undefined ? {} : { after }) });
        const listed = batch.items.filter(({ score }) => score < old);
        const valid = await Promise.all(listed.map(({ member }) => look(member)));
        const over = listed.filter((_one, place) => valid[place] === undefined);
        if (over.length > 0) {
          await store.write(over.map(({ member }) => ({ index: keys.liveSessions, remove: member })));
        }
        after = batch.next;
      } while (after !== undefined);
    },
  };
}
