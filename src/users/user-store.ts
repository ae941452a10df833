/** Owns who has ever signed in: kept from the first sign-in on, found by the beginning of a name or address, and disabled. */
import { rememberedOfEach } from '../remembered.ts';
import { decodeCursor, encodeCursor } from '../storage/index-cursor.ts';
import { keys } from '../storage/keys.ts';
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

export interface UserPage {
  users: User[];
  next?: string;
}

/** A reading that several questions of one request share. */
export interface UserReading {
  id: string;
  record: Promise<StoredRecord | undefined>;
}

export interface UserStore {
  /**
   * Keeps what the provider says of somebody who signs in. A disabled user does not, and stays as they were kept.
   * @param ahead counts where it is the reading of this very user
   */
  noteSignIn(user: Pick<User, 'id' | 'issuer' | 'subject' | 'name' | 'email'>, ahead?: UserReading): Promise<User>;
  find(id: string): Promise<User | undefined>;
  /** Begins to read what `isDisabled` and `noteSignIn` will ask for. */
  readAhead(id: string): UserReading;
  isDisabled(id: string, ahead?: UserReading): Promise<boolean>;
  /** Answers the user as they are then, or undefined where there is none with this id. */
  setDisabled(id: string, disabled: boolean): Promise<User | undefined>;
  /**
   * Answers false where there was none. Of somebody who is disabled the mark stays, without name and address: who is shut
   * out does not come back as a new user.
   */
  remove(id: string): Promise<boolean>;
  /** The one who signed in last first; with `q` those with a name, word of a name, address or id that begins so, by it. */
  page(request: { after?: string | undefined; limit: number; q?: string | undefined }): Promise<UserPage>;
  count(): Promise<number>;
}

/** Of the memory. */
const USERS_SHARE = 1 / 64;
const MOST_TERMS = 10;
const MOST_TERM_CHARACTERS = 100;
/** Stands in no term, and before everything that does. */
const END = '\t';

export function createUserStore({ store, clock }: { store: Store; clock: () => number }): UserStore {
  const read = (id: string, ahead?: UserReading) => (ahead?.id === id ? ahead.record : store.get(keys.user(id)));

  const load = async (id: string, ahead?: UserReading): Promise<{ user: User | undefined; version: number }> => {
    const stored = await read(id, ahead);
    return { user: stored && (JSON.parse(stored.value) as User), version: stored?.version ?? 0 };
  };

  const find = async (id: string) => (await load(id)).user;

  // Each relayed call of a service asks. An entry counts only for the very version that was just read.
  const disabled = rememberedOfEach<{ version: number; disabled: boolean }>(USERS_SHARE);
  const isDisabled: UserStore['isDisabled'] = async (id, ahead) => {
    const stored = await read(id, ahead);
    if (!stored) return false;
    const known = disabled.get(id);
    if (known?.version === stored.version) return known.disabled;
    const entry = { version: stored.version, disabled: (JSON.parse(stored.value) as User).disabledAt !== undefined };
    disabled.set(id, entry);
    return entry.disabled;
  };

  /**
   * Reads again and changes again where somebody else was faster.
   * @param beside what is written along with it, at the same time: it may be written although the change is not
   */
  const change = async (
    id: string,
    next: (user: User | undefined) => User | undefined,
    { beside, ahead }: { beside?: (after: User, before: User | undefined) => Promise<void>; ahead?: UserReading } = {},
  ) => {
    for (let first = true; ; first = false) {
      const { user, version } = await load(id, first ? ahead : undefined);
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

  const search = async (prefix: string, after: string | undefined, limit: number): Promise<UserPage> => {
    const users: User[] = [];
    let cursor = after ?? encodeCursor({ score: 0, member: prefix });
    for (;;) {
      const batch = await store.page(keys.userNames, { limit: limit + 1, after: cursor });
      for (const { member, score } of batch.items) {
        if (!member.startsWith(prefix)) return { users };
        if (users.length === limit) return { users, next: cursor };
        cursor = encodeCursor({ member, score });
        const user = await find(member.slice(member.indexOf(END) + 1));
        // Several terms of one user may begin so: the first of them stands for all.
        if (user && termsOf(user).find((term) => term.startsWith(prefix)) === member) users.push(user);
      }
      if (batch.next === undefined) return { users };
    }
  };

  return {
    find,
    isDisabled,

    readAhead(id) {
      const record = store.get(keys.user(id));
      // Whoever waits for it hears of a failure; it may be that nobody does.
      record.catch(() => undefined);
      return { id, record };
    },

    async noteSignIn(given, ahead) {
      const now = clock();
      const { before, after } = await change(
        given.id,
        (user) =>
          user?.disabledAt === undefined
            ? { ...given, firstSignInAt: user?.firstSignInAt ?? now, lastSignInAt: now }
            : undefined,
        // Lists are looked at with the users themselves: what stands there too much is not shown.
        { beside: index, ...(ahead && { ahead }) },
      );
      const user = after ?? before;
      if (!user) throw new TypeError('A user that signs in is always kept.');
      return user;
    },

    async setDisabled(id, disabled) {
      const { after } = await change(id, (user) => {
        if (!user) return undefined;
        const { disabledAt, ...rest } = user;
        return disabled ? { ...rest, disabledAt: disabledAt ?? clock() } : rest;
      });
      return after;
    },

    async remove(id) {
      const { user, version } = await load(id);
      if (!user) return false;
      if (user.disabledAt !== undefined) {
        const { name: _, email: __, ...mark } = user;
        await index(mark, user);
        return store.write([{ put: keys.user(id), value: JSON.stringify(mark), ifVersion: version }]);
      }
      await store.write([
        { index: keys.users, remove: id },
        ...termsOf(user).map((term) => ({ index: keys.userNames, remove: term })),
      ]);
      // Somebody who signs in meanwhile is a new user.
      return store.write([{ delete: keys.user(id), ifVersion: version }]);
    },

    async page({ after, limit, q }) {
      const prefix = folded(q ?? '');
      if (after !== undefined) decodeCursor(after);
      if (prefix !== '') return search(prefix, after, limit);
      const page = await store.page(keys.users, {
        limit,
        order: 'descending',
        ...(after === undefined ? {} : { after }),
      });
      const users = (await Promise.all(page.items.map(({ member }) => find(member)))).filter(
        (user) => user !== undefined,
      );
      return page.next === undefined ? { users } : { users, next: page.next };
    },

    count: () => store.count(keys.users),
  };
}

/** What a user is found by, in order, each with the user's id behind it. */
function termsOf({ id, name = '', email = '', subject }: User): string[] {
  const words = name.split(/\s+/).slice(1);
  const texts = [name, email, id, subject, ...words].map(folded).filter((text) => text !== '');
  return [...new Set(texts)]
    .slice(0, MOST_TERMS)
    .map((text) => `${text}${END}${id}`)
    .sort();
}

function folded(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .toLowerCase()
    .toWellFormed()
    .slice(0, MOST_TERM_CHARACTERS);
}
