/** Stores users from their first sign-in on: their identity, and whether something may be stored for them. */
import { rememberedOfEach } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import { createOpenedRecords } from '../../shared/storage/opened-records.ts';
import { decodeCursor } from '../../shared/storage/paging.ts';
import type { Store, StoredRecord, Write } from '../../shared/storage/store.ts';
import { updateRecord } from '../../shared/storage/update-record.ts';
import { createUserSearch, type MatchingUsers, normalised, type PageRequest, termChanges } from './user-search.ts';

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
  /** When the user last signed out everywhere. Requests that began earlier store nothing. */
  signedOutAt?: number | undefined;
  /** Since when the user is being deleted. */
  erasingAt?: number | undefined;
}

type Identity = Pick<User, 'id' | 'issuer' | 'subject' | 'name' | 'email'>;

/**
 * `writes`: those in the user's slot. `lists`: those in other slots. They may be written early, since readers skip
 * entries without a user.
 */
export interface SignInWrites {
  writes: readonly Write[];
  lists: readonly Write[];
}

/** The deletion of a user. `mark`: when it began, which tells it from other deletions of the same user. */
export interface Erasure {
  id: string;
  mark: number;
}

type UserState = 'active' | 'disabled' | 'unknown';

interface UserPage {
  users: User[];
  next?: string;
}

/** A read of a user that was started early, and that several calls of one request share. */
interface UserReading {
  id: string;
  record: Promise<StoredRecord | undefined>;
}

/** Share of the heap for cached states. */
const USERS_SHARE = 1 / 64;
/** How long a deletion is recorded: longer than an authorization request and its callback together can last. */
const ERASED_SECONDS = 900;
const MAX_ERASURES = 100;

export interface UserStore {
  find(id: string): Promise<User | undefined>;
  stateOf(id: string): Promise<UserState>;
  isDisabled(id: string): Promise<boolean>;

  /** Starts the read that `signInWrites` needs. */
  prefetch(id: string): UserReading;

  /**
   * Returns the writes that a sign-in makes for the user. If a write is refused, the caller must call this again.
   * @param identity as the provider reports it
   * @param since when the sign-in began: a user who was deleted or signed out everywhere after that is `gone`
   * @param prefetched ignored if it is a read of another user
   */
  signInWrites(
    identity: Identity,
    since: number,
    prefetched?: UserReading,
  ): Promise<SignInWrites | 'disabled' | 'gone'>;

  /** Stores the identity that the provider reports at a sign-in, and nothing else. */
  noteSignIn(identity: Identity): Promise<'noted' | 'disabled' | 'gone'>;

  /**
   * Returns the condition for every write for this user: the user's record has not changed since it was read.
   * @param since when the request began
   * @returns undefined if nothing may be stored: the user is unknown, disabled or being deleted, or was deleted or
   *   signed out everywhere after `since`
   */
  conditionFor(id: string, since: number): Promise<Write | undefined>;

  /**
   * Returns conditions like `conditionFor`, for imports and connect links, whose users may never have signed in. If the
   * user signs in before the write, the write is refused.
   */
  conditionsForImport(id: string, since: number): Promise<readonly Write[] | undefined>;

  /**
   * Records that the user signed out everywhere. Called before the sessions end, so that no running request outlives
   * them.
   */
  noteSignOutEverywhere(id: string): Promise<void>;

  /** Marks the user as being deleted: nothing is stored for this user from then on. */
  beginErasure(id: string): Promise<void>;

  /** Returns deletions that began by that time and are not finished, oldest first. */
  erasures(begunBy: number): Promise<Erasure[]>;

  /** Returns the changed user, or undefined if there is no user with this id. */
  setDisabled(id: string, disabled: boolean): Promise<User | undefined>;

  /**
   * Deletes the user's record. That of a disabled user stays, without name and address, so that the user cannot sign in
   * again as a new user. For other users, the time of the deletion is stored for 15 minutes, so that a sign-in that
   * began earlier stores nothing.
   * @param mark the mark of the deletion
   * @returns false if the user exists and is not being deleted by this deletion
   */
  remove(id: string, mark: number | undefined): Promise<boolean>;

  /** Ends a deletion. Called last, so that an interrupted deletion is repeated. The mark of a later deletion stays. */
  endErasure(erasure: Erasure): Promise<void>;

  /** Returns users of whom a name, a word of it, address, id or subject starts with `q`, in the order of that text. */
  search(request: PageRequest & { q: string }): Promise<MatchingUsers<User>>;

  /** Returns a page of users, the latest sign-in first; with `q`, the results of `search`. */
  page(request: PageRequest): Promise<UserPage>;

  count(): Promise<number>;
}

export function createUserStore({ store, clock }: { store: Store; clock: () => number }): UserStore {
  const read = (id: string, prefetched?: UserReading) =>
    prefetched?.id === id ? prefetched.record : store.get(keys.user(id));

  const load = async (id: string, prefetched?: UserReading): Promise<{ user: User | undefined; version: number }> => {
    const stored = await read(id, prefetched);
    return { user: stored && (JSON.parse(stored.value) as User), version: stored?.version ?? 0 };
  };

  const find = async (id: string) => (await load(id)).user;

  // Read for each relayed call of a service. An entry is used only if its version is the stored one.
  const states = rememberedOfEach<{ version: number; state: UserState }>(USERS_SHARE);
  const records = createOpenedRecords({
    store,
    cache: states,
    async open(key, stored) {
      const entry = { version: stored.version, state: stateIn(stored) };
      states.set(key, entry);
      return entry;
    },
  });
  const stateOf = async (id: string): Promise<UserState> => (await records.find(keys.user(id)))?.state ?? 'unknown';

  /** Changes a user. @returns undefined if `update` returns undefined, and nothing changes */
  const change = async (id: string, update: (user: User | undefined) => User | undefined): Promise<User | undefined> =>
    (await updateRecord(store, keys.user(id), update))?.after;

  /**
   * Returns `gone` if the user was deleted after `since` (within the last 15 minutes), even if the user has signed in
   * again. Otherwise returns the condition that the user is not deleted before the write.
   */
  const erasureSince = async (user: User | undefined, id: string, since: number): Promise<'gone' | Write[]> => {
    // If the user had been deleted since, the first sign-in would be later.
    if (user && user.firstSignInAt <= since) return [];
    const key = keys.erasedUser(id);
    const stored = await store.get(key);
    if (stored && Number(stored.value) >= since) return 'gone';
    return [stored ? { exists: key, version: stored.version } : { delete: key, ifVersion: 0 }];
  };

  const listWrites = (user: User, oldUser: User | undefined): Write[] => [
    { index: keys.users, add: user.id, score: user.lastSignInAt },
    ...termChanges(oldUser, user),
  ];

  const signInWrites = async (
    identity: Identity,
    since: number,
    prefetched?: UserReading,
  ): Promise<SignInWrites | 'disabled' | 'gone'> => {
    const { id } = identity;
    const { user, version: ifVersion } = await load(id, prefetched);
    const refusal = user && refusalOf(user, since);
    if (refusal) return refusal;
    const notErased = await erasureSince(user, id, since);
    if (notErased === 'gone') return 'gone';
    const now = clock();
    const { firstSignInAt = now } = user ?? {};
    const signedInUser = { ...user, name: undefined, email: undefined, ...identity, firstSignInAt, lastSignInAt: now };
    return {
      writes: [{ put: keys.user(id), value: JSON.stringify(signedInUser), ifVersion }, ...notErased],
      lists: listWrites(signedInUser, user),
    };
  };

  const search = createUserSearch(store, find);

  return {
    find,
    stateOf,
    isDisabled: async (id) => stateIn(await read(id)) === 'disabled',

    prefetch(id) {
      const record = store.get(keys.user(id));
      // The calls that await the record handle a failure. Without such a call, it must not be an unhandled rejection.
      record.catch(() => undefined);
      return { id, record };
    },

    signInWrites,

    async noteSignIn(identity) {
      for (;;) {
        const signIn = await signInWrites(identity, clock());
        if (typeof signIn === 'string') return signIn;
        const [version] = await Promise.all([store.write(signIn.writes), store.write(signIn.lists)]);
        if (version !== undefined) return 'noted';
      }
    },

    async conditionFor(id, since) {
      const { user, version } = await load(id);
      if (!user || refusalOf(user, since)) return undefined;
      // If the first sign-in is later than the request, the user was deleted in between.
      if (user.firstSignInAt > since) return undefined;
      return { exists: keys.user(id), version };
    },

    async conditionsForImport(id, since) {
      const { user, version } = await load(id);
      if (user && refusalOf(user, since)) return undefined;
      const condition: Write = user ? { exists: keys.user(id), version } : { delete: keys.user(id), ifVersion: 0 };
      const notErased = await erasureSince(user, id, since);
      return notErased === 'gone' ? undefined : [condition, ...notErased];
    },

    async noteSignOutEverywhere(id) {
      await change(id, (user) => user && { ...user, signedOutAt: clock() });
    },

    async beginErasure(id) {
      const mark = clock();
      // The list is written first: an entry without a mark is dropped later, but a mark without an entry is never
      // found.
      await store.write([{ index: keys.erasures, add: memberOf({ id, mark }), score: mark }]);
      const isMarked = await change(id, (user) =>
        user && user.erasingAt === undefined ? { ...user, erasingAt: mark } : undefined,
      );
      // An earlier deletion of this user has its own entry.
      if (!isMarked) await store.write([{ index: keys.erasures, remove: memberOf({ id, mark }) }]);
    },

    async erasures(begunBy) {
      const { items } = await store.page(keys.erasures, { limit: MAX_ERASURES });
      return items.filter(({ score }) => score <= begunBy).map(({ member }) => JSON.parse(member) as Erasure);
    },

    async setDisabled(id, disabled) {
      return change(id, (user) => {
        if (!user) return undefined;
        const { disabledAt, ...rest } = user;
        // Even after the user is enabled again, requests that began earlier store nothing.
        return disabled ? { ...rest, disabledAt: disabledAt ?? clock(), signedOutAt: clock() } : rest;
      });
    },

    async remove(id, mark) {
      let isListed = true;
      for (;;) {
        const { user, version } = await load(id);
        if (!user) return true;
        if (user.erasingAt === undefined || user.erasingAt !== mark) {
          // Another process finished the deletion, and the user has signed in again, so the lists must have the user
          // again.
          if (!isListed) await store.write(listWrites(user, undefined));
          return false;
        }
        isListed = false;
        const { name: _, email: __, ...anonymous } = user;
        if (user.disabledAt !== undefined) {
          await store.write(listWrites(anonymous, user));
          // Even after the user is enabled again, requests that began before the deletion store nothing.
          const value = JSON.stringify({ ...anonymous, signedOutAt: clock() });
          if (await store.write([{ put: keys.user(id), value, ifVersion: version }])) return true;
          continue;
        }
        await store.write([{ index: keys.users, remove: id }, ...termChanges(user, undefined)]);
        const isRemoved = await store.write([
          { delete: keys.user(id), ifVersion: version },
          { put: keys.erasedUser(id), value: String(clock()), lifetimeSeconds: ERASED_SECONDS },
        ]);
        if (isRemoved) return true;
      }
    },

    async endErasure({ id, mark }) {
      await change(id, (user) => (user?.erasingAt === mark ? { ...user, erasingAt: undefined } : undefined));
      await store.write([{ index: keys.erasures, remove: memberOf({ id, mark }) }]);
    },

    search,

    async page({ after, limit, q }) {
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

    count: () => store.count(keys.users),
  };
}

function stateIn(record: StoredRecord | undefined): UserState {
  if (!record) return 'unknown';
  const { disabledAt, erasingAt } = JSON.parse(record.value) as User;
  return disabledAt === undefined && erasingAt === undefined ? 'active' : 'disabled';
}

const memberOf = ({ id, mark }: Erasure): string => JSON.stringify({ id, mark });

/** Returns why a request that began at that time may store nothing for this user; undefined if it may. */
function refusalOf({ disabledAt, erasingAt, signedOutAt }: User, since: number): 'disabled' | 'gone' | undefined {
  if (disabledAt !== undefined) return 'disabled';
  return erasingAt !== undefined || (signedOutAt !== undefined && signedOutAt >= since) ? 'gone' : undefined;
}
