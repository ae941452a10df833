/** Stores the users, from their first sign-in on. They are searched by the first letters of a name, an address or an id. */
import { rememberedOfEach } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import { decodeCursor, encodeCursor } from '../storage/paging.ts';
import type { Store, StoredRecord } from '../storage/store.ts';

/** Times in milliseconds since the epoch. */
export interface User {
  id: string;
  issuer: string;
  subject: string;
  name?: string | undefined;
  email?: string | undefined;
  firstSignInAt: number;
  lastSignInAt: number;
  disabledAt?: number | undefined;
}

type UserState = 'active' | 'disabled' | 'unknown';

interface PageRequest {
  after?: string | undefined;
  limit: number;
  q?: string | undefined;
}

interface UserPage {
  users: User[];
  next?: string;
}

/** May have fewer items than the limit, even none, although there is a `next`. */
interface MatchingUsers {
  /** `cursor`: the place after this user. */
  items: { user: User; cursor: string }[];
  next?: string;
}

/** A read that was started early and that several calls of one request share. */
interface UserReading {
  id: string;
  record: Promise<StoredRecord | undefined>;
}

/** Share of the heap for cached states. */
const USERS_SHARE = 1 / 64;
const MAX_TERMS = 10;
const MAX_TERM_CHARACTERS = 100;
const TERMS_AT_ONCE = 250;
/** Bounds the work for one page. */
const MAX_TERMS_READ = 1_000;
/** Separates the term from the user id. Terms cannot contain it, and it sorts before every character that they can. */
const END = '\t';

export type UserStore = ReturnType<typeof createUserStore>;

export function createUserStore({ store, clock }: { store: Store; clock: () => number }) {
  const read = (id: string, prefetched?: UserReading) =>
    prefetched?.id === id ? prefetched.record : store.get(keys.user(id));

  const load = async (id: string, prefetched?: UserReading): Promise<{ user: User | undefined; version: number }> => {
    const stored = await read(id, prefetched);
    return { user: stored && (JSON.parse(stored.value) as User), version: stored?.version ?? 0 };
  };

  const find = async (id: string) => (await load(id)).user;

  // Needed for each relayed call of a service. An entry is current only if the store says that its version is.
  const states = rememberedOfEach<{ version: number; state: UserState }>(USERS_SHARE);
  const stateOf = async (id: string): Promise<UserState> => {
    const cached = states.get(id);
    const stored = await store.getUnless(keys.user(id), cached?.version);
    if (stored === 'unchanged') return cached?.state ?? 'unknown';
    const state = stateIn(stored);
    if (stored) states.set(id, { version: stored.version, state });
    return state;
  };

  /**
   * Repeats the read and the change if the record was changed in between.
   * @param beside runs at the same time as the write, so it can take effect although the write does not
   */
  const change = async (
    id: string,
    next: (user: User | undefined) => User | undefined,
    {
      beside,
      prefetched,
    }: { beside?: (after: User, before: User | undefined) => Promise<void>; prefetched?: UserReading } = {},
  ) => {
    for (let first = true; ; first = false) {
      const { user, version } = await load(id, first ? prefetched : undefined);
      const changed = next(user);
      if (!changed) return { before: user, after: undefined };
      const value = JSON.stringify(changed);
      const [written] = await Promise.all([
        store.write([{ put: keys.user(id), value, ifVersion: version }]),
        beside?.(changed, user),
      ]);
      if (written) return { before: user, after: changed };
    }
  };

  const index = async (user: User, before: User | undefined) => {
    const [now, past] = [termsOf(user), before ? termsOf(before) : []];
    await store.write([
      { index: keys.users, add: user.id, score: user.lastSignInAt },
      ...now.filter((term) => !past.includes(term)).map((term) => ({ index: keys.userNames, add: term, score: 0 })),
      ...past.filter((term) => !now.includes(term)).map((term) => ({ index: keys.userNames, remove: term })),
    ]);
  };

  const search = async ({ q, after, limit }: PageRequest & { q: string }): Promise<MatchingUsers> => {
    const prefix = normalised(q);
    const items: MatchingUsers['items'] = [];
    let cursor = after ?? encodeCursor({ score: 0, member: prefix });
    for (let read = 0; read < MAX_TERMS_READ; read += TERMS_AT_ONCE) {
      // The first read is enough, unless most of the terms belong to users who are listed at another term.
      const size = read === 0 ? limit + 1 : TERMS_AT_ONCE;
      const batch = await store.page(keys.userNames, { limit: size, after: cursor });
      const terms = batch.items.filter(({ member }) => member.startsWith(prefix));
      const found = await Promise.all(terms.map(({ member }) => find(member.slice(member.indexOf(END) + 1))));
      for (const [at, term] of terms.entries()) {
        if (items.length === limit) return { items, next: cursor };
        cursor = encodeCursor(term);
        const user = found[at];
        // Several terms of one user may start with the prefix: list the user at the first of them.
        if (user && termsOf(user).find((one) => one.startsWith(prefix)) === term.member) items.push({ user, cursor });
      }
      if (batch.next === undefined || terms.length < batch.items.length) return { items };
    }
    return { items, next: cursor };
  };

  return {
    find,
    stateOf,
    isDisabled: async (id: string, prefetched?: UserReading): Promise<boolean> =>
      stateIn(await read(id, prefetched)) === 'disabled',

    /** Starts the read that `isDisabled` and `noteSignIn` need. */
    prefetch(id: string): UserReading {
      const record = store.get(keys.user(id));
      // The calls that await the record handle a failure. Without one it must not be an unhandled rejection.
      record.catch(() => undefined);
      return { id, record };
    },

    /**
     * Stores the identity that the provider reports at a sign-in. The record of a disabled user is not changed.
     * @param prefetched used only if it is a reading of this user
     */
    async noteSignIn(
      identity: Pick<User, 'id' | 'issuer' | 'subject' | 'name' | 'email'>,
      prefetched?: UserReading,
    ): Promise<User> {
      const now = clock();
      const { before, after } = await change(
        identity.id,
        (user) =>
          user?.disabledAt === undefined
            ? {
                ...user,
                name: undefined,
                email: undefined,
                ...identity,
                firstSignInAt: user?.firstSignInAt ?? now,
                lastSignInAt: now,
              }
            : undefined,
        // Writing the index early is safe: lists and searches leave out entries without a matching user.
        { beside: index, ...(prefetched && { prefetched }) },
      );
      const user = after ?? before;
      if (!user) throw new TypeError('A user who signs in must be stored.');
      return user;
    },

    /** Returns the changed user, or undefined if there is no user with this id. */
    async setDisabled(id: string, disabled: boolean): Promise<User | undefined> {
      const { after } = await change(id, (user) => {
        if (!user) return undefined;
        const { disabledAt, ...rest } = user;
        return disabled ? { ...rest, disabledAt: disabledAt ?? clock() } : rest;
      });
      return after;
    },

    /**
     * Returns false if there is no such user. For a disabled user the record stays, without name and address, so that
     * they cannot sign in again as a new user.
     */
    async remove(id: string): Promise<boolean> {
      const { user, version } = await load(id);
      if (!user) return false;
      if (user.disabledAt !== undefined) {
        const { name: _, email: __, ...anonymous } = user;
        await index(anonymous, user);
        const value = JSON.stringify(anonymous);
        return (await store.write([{ put: keys.user(id), value, ifVersion: version }])) !== undefined;
      }
      await store.write([
        { index: keys.users, remove: id },
        ...termsOf(user).map((term) => ({ index: keys.userNames, remove: term })),
      ]);
      // The version check keeps a user who signed in meanwhile.
      return (await store.write([{ delete: keys.user(id), ifVersion: version }])) !== undefined;
    },

    /** Users with a name, a word of a name, an address, an id or a subject that starts with `q`, in alphabetical order of that. */
    search,

    /** Sorted by the last sign-in, newest first; with `q`, those of `search`. */
    async page({ after, limit, q }: PageRequest): Promise<UserPage> {
      if (after !== undefined) decodeCursor(after);
      if (q !== undefined && normalised(q) !== '') {
        const { items, ...rest } = await search({ q, after, limit });
        return { users: items.map(({ user }) => user), ...rest };
      }
      const page = await store.page(keys.users, {
        limit,
        order: 'descending',
        ...(after === undefined ? {} : { after }),
      });
      const users = await Promise.all(page.items.map(({ member }) => find(member)));
      return { users: users.filter((user) => user !== undefined), ...(page.next && { next: page.next }) };
    },

    count: (): Promise<number> => store.count(keys.users),
  };
}

function stateIn(record: StoredRecord | undefined): UserState {
  if (!record) return 'unknown';
  return (JSON.parse(record.value) as User).disabledAt === undefined ? 'active' : 'disabled';
}

/** The search terms of a user, sorted, each followed by the user's id. */
function termsOf({ id, name = '', email = '', subject }: User): string[] {
  const words = name.split(/\s+/).slice(1);
  const texts = [name, email, id, subject, ...words].map(normalised).filter((text) => text !== '');
  return [...new Set(texts)]
    .slice(0, MAX_TERMS)
    .map((text) => `${text}${END}${id}`)
    .sort();
}

function normalised(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .toLowerCase()
    .toWellFormed()
    .slice(0, MAX_TERM_CHARACTERS);
}
