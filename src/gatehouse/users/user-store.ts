/** Stores the users, from their first sign-in on: who they are, and whether something may be made for them. */
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
  /** When the user last signed out everywhere: what was begun before makes nothing. */
  signedOutAt?: number | undefined;
  /** Since when the user is being deleted. */
  erasingAt?: number | undefined;
}

type Identity = Pick<User, 'id' | 'issuer' | 'subject' | 'name' | 'email'>;

/** `writes` lie in the user's slot. `lists` lie elsewhere and may be written early: readers leave out entries without a user. */
export interface SignInSteps {
  writes: readonly Write[];
  lists: readonly Write[];
}

/** The deletion of a user. `mark`: when it began, by which it differs from others of the same user. */
export interface Erasure {
  id: string;
  mark: number;
}

type UserState = 'active' | 'disabled' | 'unknown';

interface UserPage {
  users: User[];
  next?: string;
}

/** A read that was started early and that several calls of one request share. */
interface UserReading {
  id: string;
  record: Promise<StoredRecord | undefined>;
}

/** Share of the heap for cached states. */
const USERS_SHARE = 1 / 64;
/** Longer than an authorization request may be pending (10 minutes) and its callback may take. */
const ERASED_SECONDS = 900;
const MAX_ERASURES = 100;

export interface UserStore {
  find(id: string): Promise<User | undefined>;
  stateOf(id: string): Promise<UserState>;
  isDisabled(id: string): Promise<boolean>;

  /** Starts the read that `signInSteps` needs. */
  prefetch(id: string): UserReading;

  /**
   * What a sign-in writes of the user, by the identity that the provider reports. Read again where the write is refused.
   * @param since when the sign-in began: a user who was deleted or signed out everywhere after that is `gone`
   * @param prefetched used only if it is a reading of this user
   */
  signInSteps(identity: Identity, since: number, prefetched?: UserReading): Promise<SignInSteps | 'disabled' | 'gone'>;

  /** Stores the identity that the provider reports at a sign-in, and nothing beside it. */
  noteSignIn(identity: Identity): Promise<'noted' | 'disabled' | 'gone'>;

  /**
   * The condition under which a write for this user may be made: the record stays as it was when it was read.
   * @param since when the request began
   * @returns undefined where nothing may be made: the user is disabled, being deleted, not known, or was deleted or signed out
   * everywhere since
   */
  conditionFor(id: string, since: number): Promise<Write | undefined>;

  /**
   * As `conditionFor`, for imports and connect links, whose users may never have signed in: a record that comes meanwhile
   * refuses the write.
   */
  conditionsForImport(id: string, since: number): Promise<readonly Write[] | undefined>;

  /** Notes that the user signed out everywhere: before the sessions end, so that nothing that is under way outlives them. */
  noteSignOutEverywhere(id: string): Promise<void>;

  /** Marks the user: nothing is made for this user from then on. */
  beginErasure(id: string): Promise<void>;

  /** Deletions that began by that time and are not finished, oldest first. */
  erasures(by: number): Promise<Erasure[]>;

  /** Returns the changed user, or undefined if there is no user with this id. */
  setDisabled(id: string, disabled: boolean): Promise<User | undefined>;

  /**
   * Deletes the record. That of a disabled user stays, without name and address, so that they cannot sign in again as a new
   * user. For any other a note of the time stays for 15 minutes, so that a sign-in that began before makes nothing.
   * @param mark of the deletion
   * @returns false if the user is there, and is not being deleted by it
   */
  remove(id: string, mark: number | undefined): Promise<boolean>;

  /** Ends an erasure: last, so that one that is interrupted before is repeated. The mark of a later one stays. */
  endErasure(erasure: Erasure): Promise<void>;

  /** Users with a name, a word of a name, an address, an id or a subject that starts with `q`, in alphabetical order of that. */
  search(request: PageRequest & { q: string }): Promise<MatchingUsers<User>>;

  /** Sorted by the last sign-in, newest first; with `q`, those of `search`. */
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

  // Needed for each relayed call of a service. An entry is current only if the store says that its version is.
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

  /** @returns undefined where `next` changes nothing */
  const change = async (id: string, next: (user: User | undefined) => User | undefined): Promise<User | undefined> =>
    (await updateRecord(store, keys.user(id), next))?.after;

  /**
   * `gone` if the user was deleted since then, within the last 15 minutes, also one who has signed in again; otherwise the
   * condition that demands that it stays so.
   */
  const erasureSince = async (user: User | undefined, id: string, since: number): Promise<'gone' | Write[]> => {
    // The record would be younger.
    if (user && user.firstSignInAt <= since) return [];
    const key = keys.erasedUser(id);
    const stored = await store.get(key);
    if (stored && Number(stored.value) >= since) return 'gone';
    return [stored ? { exists: key, version: stored.version } : { delete: key, ifVersion: 0 }];
  };

  const listSteps = (user: User, before: User | undefined): Write[] => [
    { index: keys.users, add: user.id, score: user.lastSignInAt },
    ...termChanges(before, user),
  ];

  const signInSteps = async (
    identity: Identity,
    since: number,
    prefetched?: UserReading,
  ): Promise<SignInSteps | 'disabled' | 'gone'> => {
    const { id } = identity;
    const { user, version: ifVersion } = await load(id, prefetched);
    const refusal = user && refusalOf(user, since);
    if (refusal) return refusal;
    const erased = await erasureSince(user, id, since);
    if (erased === 'gone') return 'gone';
    const now = clock();
    const { firstSignInAt = now } = user ?? {};
    const signedIn = { ...user, name: undefined, email: undefined, ...identity, firstSignInAt, lastSignInAt: now };
    return {
      writes: [{ put: keys.user(id), value: JSON.stringify(signedIn), ifVersion }, ...erased],
      lists: listSteps(signedIn, user),
    };
  };

  const search = createUserSearch(store, find);

  return {
    find,
    stateOf,
    isDisabled: async (id) => stateIn(await read(id)) === 'disabled',

    prefetch(id) {
      const record = store.get(keys.user(id));
      // The calls that await the record handle a failure. Without one it must not be an unhandled rejection.
      record.catch(() => undefined);
      return { id, record };
    },

    signInSteps,

    async noteSignIn(identity) {
      for (;;) {
        const steps = await signInSteps(identity, clock());
        if (typeof steps === 'string') return steps;
        const [version] = await Promise.all([store.write(steps.writes), store.write(steps.lists)]);
        if (version !== undefined) return 'noted';
      }
    },

    async conditionFor(id, since) {
      const { user, version } = await load(id);
      if (!user || refusalOf(user, since)) return undefined;
      // A user who connected before the first sign-in was deleted in between.
      if (user.firstSignInAt > since) return undefined;
      return { exists: keys.user(id), version };
    },

    async conditionsForImport(id, since) {
      const { user, version } = await load(id);
      if (user && refusalOf(user, since)) return undefined;
      const condition: Write = user ? { exists: keys.user(id), version } : { delete: keys.user(id), ifVersion: 0 };
      const erased = await erasureSince(user, id, since);
      return erased === 'gone' ? undefined : [condition, ...erased];
    },

    async noteSignOutEverywhere(id) {
      await change(id, (user) => user && { ...user, signedOutAt: clock() });
    },

    async beginErasure(id) {
      const mark = clock();
      // The list first: an entry without a mark is dropped later, but a mark without an entry is never found.
      await store.write([{ index: keys.erasures, add: memberOf({ id, mark }), score: mark }]);
      const isOwn = await change(id, (user) =>
        user && user.erasingAt === undefined ? { ...user, erasingAt: mark } : undefined,
      );
      // The deletion that began before has an entry of its own.
      if (!isOwn) await store.write([{ index: keys.erasures, remove: memberOf({ id, mark }) }]);
    },

    async erasures(by) {
      const { items } = await store.page(keys.erasures, { limit: MAX_ERASURES });
      return items.filter(({ score }) => score <= by).map(({ member }) => JSON.parse(member) as Erasure);
    },

    async setDisabled(id, disabled) {
      return change(id, (user) => {
        if (!user) return undefined;
        const { disabledAt, ...rest } = user;
        // Nothing that began before is made once the user is enabled again.
        return disabled ? { ...rest, disabledAt: disabledAt ?? clock(), signedOutAt: clock() } : rest;
      });
    },

    async remove(id, mark) {
      let isListed = true;
      for (;;) {
        const { user, version } = await load(id);
        if (!user) return true;
        if (user.erasingAt === undefined || user.erasingAt !== mark) {
          // Another process was faster, and the user has signed in again: back into the lists.
          if (!isListed) await store.write(listSteps(user, undefined));
          return false;
        }
        isListed = false;
        const { name: _, email: __, ...anonymous } = user;
        if (user.disabledAt !== undefined) {
          await store.write(listSteps(anonymous, user));
          // What began before the deletion makes nothing, also where the user is enabled again.
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

/** Why nothing may be made for this user by what began at that time. */
function refusalOf({ disabledAt, erasingAt, signedOutAt }: User, since: number): 'disabled' | 'gone' | undefined {
  if (disabledAt !== undefined) return 'disabled';
  return erasingAt !== undefined || (signedOutAt !== undefined && signedOutAt >= since) ? 'gone' : undefined;
}
