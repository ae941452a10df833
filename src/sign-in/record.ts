/** Owns the records of sign-ins: each attempt with its steps, found by reference or address, kept for 30 days and bounded in number. */
import { hashOf, keys } from '../storage/keys.ts';
import type { Store, StoredRecord } from '../storage/store.ts';
import {
  folded,
  isKnown,
  listsOf,
  merged,
  ofBrowser,
  placesOf,
  type SignInChanges,
  type SignInRecord,
} from './attempt.ts';

export interface SignInRecords {
  /** A new attempt. `state`: the attempt is found again by it (kept as its hash). Never rejects: a record is worth no sign-in. */
  begin(record: Omit<SignInRecord, 'id' | 'references'> & { reference: string; state: string }): Promise<void>;
  /**
   * Adds to the attempt that began with this state, or makes one where none is known. Never rejects. Answers its id.
   * @param known the attempt, where it need not be looked for by its state
   */
  add(state: string | undefined, changes: SignInChanges, known?: KnownAttempt): Promise<string | undefined>;
  /** Begins to read what `add` will ask for. */
  readAhead(id: string): AttemptReading;
  /** The attempt that began with this state. */
  byState(state: string): Promise<SignInRecord | undefined>;
  /** By its id or by the reference of an error page, in any case. */
  find(reference: string): Promise<SignInRecord | undefined>;
  /** Of the same browser, the newest first, without that attempt itself. */
  besides(attempt: Pick<SignInRecord, 'id' | 'browserHash'>, limit: number): Promise<SignInRecord[]>;
  /** Says whose an attempt probably was of which nobody is known. */
  presume(id: string, who: Pick<SignInRecord, 'userId' | 'name' | 'email'>): Promise<void>;
  /** The newest first: those of one e-mail address or one browser, the failed ones, those that never came back, or all. */
  page(request: {
    after?: string | undefined;
    limit: number;
    email?: string | undefined;
    browserHash?: string | undefined;
    failedOnly?: boolean | undefined;
    openOnly?: boolean | undefined;
  }): Promise<{ items: SignInRecord[]; next?: string }>;
  forgetUser(user: { id: string; email?: string | undefined }): Promise<void>;
  /** Drops what is too old or too much. */
  trim(): Promise<void>;
}

export interface KnownAttempt {
  id: string;
  ahead?: AttemptReading | undefined;
}

/** A reading that was begun before it was known what will be added. */
export interface AttemptReading {
  id: string;
  record: Promise<StoredRecord | undefined>;
}

const DAYS = 30;
const DAY_MILLISECONDS = 86_400_000;
/** Outlives its place in the lists, so that whoever trims them still sees in which they are. */
const LIFETIME_SECONDS = (DAYS + 2) * 86_400;
/** Anybody can start as many as they like, so those that never came back have a limit of their own. */
const MOST = { open: 2_000, all: 50_000 };
/** By each process and minute: what is begun beyond that leaves no record. */
const STARTS_A_MINUTE = 300;
const BATCH = 100;

export function createSignInRecords({ store, clock }: { store: Store; clock: () => number }): SignInRecords {
  const admit = startGate(clock);

  const load = async (
    id: string,
    ahead?: AttemptReading,
  ): Promise<{ record: SignInRecord; version: number } | undefined> => {
    const stored = await (ahead?.id === id ? ahead.record : store.get(keys.signIn(id)));
    return stored && { record: JSON.parse(stored.value) as SignInRecord, version: stored.version };
  };

  const save = (record: SignInRecord, ifVersion: number, aliases: string[], before?: SignInRecord): Promise<boolean> =>
    store.write([
      { put: keys.signIn(record.id), value: JSON.stringify(record), ifVersion, lifetimeSeconds: LIFETIME_SECONDS },
      ...aliases.map((alias) => ({
        put: keys.signInAlias(alias),
        value: record.id,
        lifetimeSeconds: LIFETIME_SECONDS,
      })),
      ...placesOf(record, before),
    ]);

  const idOf = async (alias: string): Promise<string | undefined> => (await store.get(keys.signInAlias(alias)))?.value;

  const extend = async (
    id: string,
    changes: SignInChanges,
    aliases: string[],
    ahead: AttemptReading | undefined,
  ): Promise<boolean> => {
    for (let first = true; ; first = false) {
      const found = await load(id, first ? ahead : undefined);
      if (!found) return false;
      const next = merged(found.record, changes);
      // One callback, opened over and over, leaves no more than the record can name.
      const named = next.references.includes(changes.reference) ? aliases : [];
      if (await save(next, found.version, named, found.record)) return true;
    }
  };

  const forget = async (record: SignInRecord): Promise<void> => {
    await store.write([
      { delete: keys.signIn(record.id) },
      ...record.references.map((reference) => ({ delete: keys.signInAlias(aliasOf(reference)) })),
      ...listsOf(record).map((index) => ({ index, remove: record.id })),
    ]);
  };

  const trimList = async (index: string, most: number): Promise<void> => {
    const horizon = clock() - DAYS * DAY_MILLISECONDS;
    let surplus = (await store.count(index)) - most;
    for (;;) {
      const { items } = await store.page(index, { limit: BATCH });
      const gone = items.filter(({ score }, place) => score < horizon || place < surplus);
      for (const { member } of gone) {
        const found = await load(member);
        if (found) await forget(found.record);
        else await store.write([{ index, remove: member }]);
      }
      surplus -= gone.length;
      if (gone.length < BATCH) return;
    }
  };

  const find = async (reference: string) => {
    const id = (await idOf(aliasOf(reference))) ?? reference.trim().toLowerCase();
    return (await load(id))?.record;
  };

  return {
    find,
    byState: async (state) => {
      const id = await idOf(hashOf(state));
      return id === undefined ? undefined : (await load(id))?.record;
    },

    async begin({ reference, state, ...rest }) {
      if (!admit()) return;
      const record: SignInRecord = { ...rest, id: attemptIdOf(reference), references: [reference] };
      await save(record, 0, [hashOf(state), aliasOf(reference)]).catch(() => undefined);
    },

    async add(state, changes, attempt) {
      try {
        const known = attempt?.id ?? (state === undefined ? undefined : await idOf(hashOf(state)));
        const aliases = [aliasOf(changes.reference)];
        if (known !== undefined && (await extend(known, changes, aliases, attempt?.ahead))) return known;
        if (!admit()) return undefined;
        const { reference, steps, facts = {}, ...rest } = changes;
        const base = { app: 'unknown', purpose: 'unknown' as const, startedAt: clock(), ...rest };
        const id = attemptIdOf(reference);
        const record: SignInRecord = { ...base, facts, steps: [...steps], id, references: [reference] };
        await save(record, 0, [...aliases, ...(state === undefined ? [] : [hashOf(state)])]);
        return id;
      } catch {
        return undefined;
      }
    },

    readAhead(id) {
      const record = store.get(keys.signIn(id));
      // Whoever waits for it hears of a failure; it may be that nobody does.
      record.catch(() => undefined);
      return { id, record };
    },

    async besides({ id, browserHash }, limit) {
      if (browserHash === undefined) return [];
      const { items } = await store.page(keys.signIns('of', ofBrowser(browserHash)), { limit, order: 'descending' });
      const others = items.filter(({ member }) => member !== id);
      return (await Promise.all(others.map(({ member }) => load(member)))).flatMap((one) => (one ? [one.record] : []));
    },

    async presume(id, who) {
      for (;;) {
        const found = await load(id);
        if (!found || isKnown(found.record)) return;
        const next = { ...found.record, ...who, presumed: true };
        if (await save(next, found.version, [], found.record)) return;
      }
    },

    async page({ after, limit, email, browserHash, failedOnly = false, openOnly = false }) {
      const whom = email !== undefined ? folded(email) : browserHash && ofBrowser(browserHash);
      const list = openOnly ? 'open' : failedOnly ? 'failed' : 'all';
      const index = whom !== undefined ? keys.signIns('of', whom) : keys.signIns(list);
      const page = await store.page(index, { limit, order: 'descending', ...(after === undefined ? {} : { after }) });
      const found = await Promise.all(page.items.map(({ member }) => load(member)));
      const items = found.flatMap((one) => (one ? [one.record] : []));
      return page.next === undefined ? { items } : { items, next: page.next };
    },

    async forgetUser({ id, email }) {
      for (const whom of [id, ...(email === undefined ? [] : [folded(email)])]) {
        const index = keys.signIns('of', whom);
        for (;;) {
          const { items } = await store.page(index, { limit: BATCH });
          if (items.length === 0) break;
          for (const { member } of items) {
            const found = await load(member);
            if (found) await forget(found.record);
            await store.write([{ index, remove: member }]);
          }
        }
      }
    },

    async trim() {
      await trimList(keys.signIns('open'), MOST.open);
      await trimList(keys.signIns('all'), MOST.all);
    },
  };
}

function startGate(clock: () => number): () => boolean {
  let minute = 0;
  let starts = 0;
  return () => {
    const now = Math.floor(clock() / 60_000);
    if (now !== minute) [minute, starts] = [now, 0];
    starts += 1;
    return starts <= STARTS_A_MINUTE;
  };
}

/** The id of the attempt that the request with this reference begins. */
export const attemptIdOf = (reference: string): string => reference.toLowerCase();

const aliasOf = (reference: string) => `reference ${reference.trim().toLowerCase()}`;
