/** Stores a bounded number of sign-in records for 30 days: by id, state, reference or e-mail address. */
import { callerNetwork } from '../../shared/config/networks.ts';
import { remembered } from '../../shared/remembered.ts';
import { hashOf, keys } from '../../shared/storage/keys.ts';
import { type MatchingOptions, type MatchingPage, matchingPage } from '../../shared/storage/matching-page.ts';
import { type MergedSource, unionPage } from '../../shared/storage/merged-page.ts';
import { allPages } from '../../shared/storage/paging.ts';
import type { Store, StoredRecord, Write } from '../../shared/storage/store.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import { folded, listsOf, listWrites, type SignInChanges, type SignInRecord, withRequest } from './attempt.ts';
import { createTrim, RECORD_DAYS } from './record-trim.ts';

type NewAttempt = Omit<SignInRecord, 'id' | 'references'> & { reference: string; state: string };

interface PageRequest {
  after?: string | undefined;
  limit: number;
  /** The id or the e-mail address of a user. */
  user?: string | undefined;
  /** Only failed and refused attempts, or only unfinished ones; ignored with `user`. */
  list?: 'failed' | 'open' | undefined;
  /** Limits of the start, in milliseconds since the epoch; both are included. */
  range?: MatchingOptions<SignInRecord>['range'];
  /** Attempts that this refuses are left out. A page then reads at most 2,000 attempts. */
  filter?: MatchingOptions<SignInRecord>['filter'];
}

/** A user's attempts are listed under each of these. */
interface UserKeys {
  id: string;
  email?: string | undefined;
}

interface PendingAttempt {
  id: string;
  reading?: RecordReading | undefined;
  /** Made in the same write as the change of the record. */
  writes?: readonly Write[] | undefined;
}

export type RecordReading = Promise<StoredRecord | undefined>;

/** A record outlives its entries in the lists, since `trim` reads from it which lists have it. */
const LIFETIME_SECONDS = (RECORD_DAYS + 2) * DAY_SECONDS;
/** Any client can start any number of sign-ins, so unfinished ones have a limit of their own. */
const MAX_RECORDS = { open: 2_000, all: 50_000 };
/**
 * The number of records that an address can add per minute, in each process and for each kind. `bare`: starts, and
 * callbacks without a genuine state, which any client can send. `stale`: callbacks with a genuine state that is no
 * longer pending, of which a client can collect many. `unsolicited`: callbacks without a genuine state and without a
 * cookie, for which a client needs nothing.
 */
const MAX_NEW_A_MINUTE = { bare: 300, stale: 300, unsolicited: 10 };
type NewKind = keyof typeof MAX_NEW_A_MINUTE;
const FORGET_BATCH = 200;
/** A few tens of milliseconds of work, for a filter that matches little. */
const MAX_READ = 2_000;
const MAX_ADDRESSES = 20_000;

export interface RecordStore {
  /** Finds a record by its id, or by the reference of an error page, in any case. */
  find(reference: string): Promise<SignInRecord | undefined>;

  /** Finds the attempt that began with this state. */
  byState(state: string): Promise<SignInRecord | undefined>;

  /**
   * Returns the operations that store a new attempt, for the same write as the pending request; none if the address has
   * begun too many attempts (R95).
   */
  beginWrites(attempt: NewAttempt): readonly Write[];

  /**
   * Adds to the attempt that began with this state, or stores a new one. Never rejects.
   * Without a pending request, an address can store a limited number of new attempts per minute (R95).
   * @param attempt the attempt of the pending request that this request has taken; if undefined, the attempt is looked up
   *   by its state, and one that has ended stays as it is
   * @returns the id of the attempt, or undefined if nothing was stored
   */
  add(state: string | undefined, changes: SignInChanges, attempt?: PendingAttempt): Promise<string | undefined>;

  /** Begins to read the record that `add` will change. */
  prefetch(id: string): RecordReading;

  /** Lists, newest first, all attempts, or those of a user, the failed ones, or the unfinished ones. */
  page(request: PageRequest): Promise<MatchingPage<SignInRecord>>;

  /** Lists the attempts of a user, by id and by e-mail address, newest first. */
  merged(user: UserKeys, accepts: (record: SignInRecord) => boolean): MergedSource<SignInRecord>;

  /** Deletes the records of a user. @param begunBy limits this to attempts that began by then, in ms since the epoch */
  forgetUser(user: UserKeys, begunBy?: number): Promise<void>;

  /** Deletes records that are too old or too many. */
  trim(): Promise<void>;
}

export function createRecordStore(parts: {
  store: Store;
  clock: () => number;
  maxRecords?: { open: number; all: number };
}): RecordStore {
  const { store, clock, maxRecords = MAX_RECORDS } = parts;
  const isWithinLimit = limitByAddress(clock);

  const load = async (
    id: string,
    reading: RecordReading = store.get(keys.signIn(id)),
  ): Promise<{ record: SignInRecord; version: number } | undefined> => {
    const stored = await reading;
    return stored && { record: JSON.parse(stored.value) as SignInRecord, version: stored.version };
  };

  const writesOf = (record: SignInRecord, ifVersion: number, aliases: string[], before?: SignInRecord): Write[] => [
    { put: keys.signIn(record.id), value: JSON.stringify(record), ifVersion, lifetimeSeconds: LIFETIME_SECONDS },
    ...aliases.map((alias) => ({ put: keys.signInAlias(alias), value: record.id, lifetimeSeconds: LIFETIME_SECONDS })),
    ...listWrites(record, before),
  ];

  const idOf = async (alias: string): Promise<string | undefined> => (await store.get(keys.signInAlias(alias)))?.value;

  const extend = async (
    id: string,
    changes: SignInChanges,
    aliases: string[],
    attempt: PendingAttempt | undefined,
  ): Promise<boolean> => {
    let stored = await load(id, attempt?.reading);
    while (stored) {
      // A callback that comes after the end of its attempt changes nothing of it (R10).
      if (!attempt && stored.record.endedAt !== undefined) return true;
      const next = withRequest(stored.record, changes);
      // A callback that is opened many times stores no more references than the record has (R54).
      const newAliases = next.references.includes(changes.reference) ? aliases : [];
      const writes = writesOf(next, stored.version, newAliases, stored.record);
      if (await store.write([...writes, ...(attempt?.writes ?? [])])) return true;
      stored = await load(id);
    }
    return false;
  };

  /** Deletes the records with these ids, and their entries in every list. */
  const drop = async (index: string, ids: readonly string[]): Promise<void> => {
    for (const id of ids) {
      const { record } = (await load(id)) ?? {};
      const lists = new Set([index, ...(record ? listsOf(record) : [])]);
      await store.write([
        { delete: keys.signIn(id) },
        { delete: keys.signInReturn(id) },
        ...(record?.references ?? []).map((reference) => ({ delete: keys.signInAlias(aliasOf(reference)) })),
        ...[...lists].map((list) => ({ index: list, remove: id })),
      ]);
    }
  };

  return {
    async find(reference) {
      const id = (await idOf(aliasOf(reference))) ?? reference.trim().toLowerCase();
      return (await load(id))?.record;
    },

    async byState(state) {
      const id = await idOf(hashOf(state));
      return id === undefined ? undefined : (await load(id))?.record;
    },

    beginWrites({ reference, state, ...rest }) {
      if (!isWithinLimit('bare', rest.address)) return [];
      const record: SignInRecord = { ...rest, id: attemptIdOf(reference), references: [reference] };
      return writesOf(record, 0, [hashOf(state)]);
    },

    async add(state, changes, attempt) {
      try {
        const existingId = attempt?.id ?? (state === undefined ? undefined : await idOf(hashOf(state)));
        const aliases = [aliasOf(changes.reference)];
        if (existingId !== undefined && (await extend(existingId, changes, aliases, attempt))) return existingId;
        const hasPendingRequest = attempt !== undefined;
        const kind = changes.browserHash === undefined ? 'unsolicited' : 'bare';
        if (!hasPendingRequest && !isWithinLimit(state === undefined ? kind : 'stale', changes.address))
          return undefined;
        const { reference, steps, facts = {}, ...rest } = changes;
        const base = { app: 'unknown', purpose: 'unknown' as const, startedAt: clock(), ...rest };
        const id = attemptIdOf(reference);
        const record: SignInRecord = { ...base, facts, steps: [...steps], id, references: [reference] };
        await store.write([
          ...writesOf(record, 0, state === undefined ? [] : [hashOf(state)]),
          ...(attempt?.writes ?? []),
        ]);
        return id;
      } catch {
        return undefined;
      }
    },

    prefetch(id) {
      const reading = store.get(keys.signIn(id));
      // `add` reports a failure; without this, a read that is never used would be an unhandled rejection.
      reading.catch(() => undefined);
      return reading;
    },

    page({ user, list, ...options }) {
      const index =
        user === undefined ? keys.signIns(list ?? 'all') : keys.signIns('of', user.includes('@') ? folded(user) : user);
      const limited = options.filter ? { ...options, maxRead: MAX_READ } : options;
      return matchingPage(store, index, limited, async (id) => (await load(id))?.record);
    },

    merged({ id, email }, accepts) {
      const indexes = [id, ...(email === undefined ? [] : [folded(email)])].map((user) => keys.signIns('of', user));
      return {
        page: (options) => unionPage(store, indexes, options),
        load: (positions) =>
          Promise.all(
            positions.map(async ({ member }) => {
              const { record } = (await load(member)) ?? {};
              return record && accepts(record) ? record : undefined;
            }),
          ),
      };
    },

    async forgetUser({ id, email }, begunBy = Number.POSITIVE_INFINITY) {
      for (const user of [id, ...(email === undefined ? [] : [folded(email)])]) {
        const index = keys.signIns('of', user);
        const listIds = async () => {
          const ids: string[] = [];
          for await (const items of allPages((options) => store.page(index, options), FORGET_BATCH))
            ids.push(...items.filter(({ score }) => score <= begunBy).map(({ member }) => member));
          return ids;
        };
        // Repeated until the list is empty, since a sign-in may end meanwhile.
        let ids = await listIds();
        while (ids.length > 0) {
          await drop(index, ids);
          ids = await listIds();
        }
      }
    },

    trim: createTrim({ store, clock, maxRecords, load, drop }),
  };
}

function limitByAddress(clock: () => number): (kind: NewKind, address: string | undefined) => boolean {
  const callers = remembered<{ minute: number; count: number }>(MAX_ADDRESSES);
  return (kind, address = 'unknown') => {
    const caller = `${kind} ${callerNetwork(address)}`;
    const minute = Math.floor(clock() / 60_000);
    const last = callers.get(caller);
    const count = last?.minute === minute ? last.count + 1 : 1;
    callers.set(caller, { minute, count });
    return count <= MAX_NEW_A_MINUTE[kind];
  };
}

/** Returns the id of the attempt that begins with this request: administrators can find it by id or by reference. */
export const attemptIdOf = (reference: string): string => reference.toLowerCase();

const aliasOf = (reference: string) => `reference ${reference.trim().toLowerCase()}`;
