/** Limits how many requests one caller may send in a minute, counted across processes without a write for each request. */
import type { Config } from '../config/config.ts';
import { callerNetwork } from '../config/networks.ts';
import { AppError } from '../errors.ts';
import { remembered } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

/**
 * What is counted: requests of an address, a session, a relay token, or an account of the BIN lookup service; and by
 * address, started sign-ins and wrong tokens.
 */
export type LimitKind = 'address' | 'session' | 'relay-token' | 'plan' | 'sign-in' | 'guess';

interface Entry {
  kind: LimitKind;
  caller: string;
  minute: number;
  limit: number;
  /** Requests to this process. */
  own: number;
  /** How many of those this process has added to the store. */
  stored: number;
  /** The store's count, of all processes, when this one last added to it. */
  total: number;
}

const MINUTE_MS = 60_000;
/** A client that spreads requests over several processes can exceed the limit for this long. */
const FLUSH_MS = 300;
/**
 * A caller below this part of its limit costs no write. A client has an address without signing in, so an address causes
 * writes only from half of its limit on (R54).
 */
const STORED_FROM: Readonly<Record<LimitKind, number>> = {
  address: 0.5,
  session: 0.05,
  'relay-token': 0.05,
  plan: 0.05,
  'sign-in': 0.5,
  guess: 0.5,
};
const BY_ADDRESS: ReadonlySet<LimitKind> = new Set(['address', 'sign-in', 'guess']);
const MAX_CALLERS = 50_000;
const LIFETIME_SECONDS = 120;

const TOO_MANY_REQUESTS =
  'These are more requests than one caller may send in a minute. Wait as long as Retry-After says.';
const TOO_MANY_SIGN_INS =
  'Too many sign-ins were started from your network address within a minute. Wait a minute, then try again.';

/** By address: enough for a misconfigured service to be noticed, too few to search for relay or admin tokens. */
const TOKEN_GUESSES_PER_MINUTE = 100;

/** The limits of the settings, and the fixed one of wrong tokens. */
export function limitsOf({ relayToken, signIns, ...rest }: Config['rateLimits']): Readonly<Record<LimitKind, number>> {
  return { ...rest, 'relay-token': relayToken, plan: 0, 'sign-in': signIns, guess: TOKEN_GUESSES_PER_MINUTE };
}

export interface RateLimits {
  /**
   * Counts a request of the caller.
   * @param limit of this caller, if callers of this kind have different ones
   * @returns the caller's requests in this minute
   * @throws AppError `rate_limited` beyond the limit
   */
  take(kind: LimitKind, caller: string, limit?: number): number;
  /** As `take`, without counting. @throws AppError `rate_limited` if the limit is reached */
  check(kind: LimitKind, caller: string): void;
  /** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers) after `count` requests; empty without a limit. */
  headers(kind: LimitKind, count: number): Record<string, string>;
  /** Writes pending counts of this minute to the store now. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** @param parts `perMinute`: 0 for no limit */
export function createRateLimits(parts: {
  store: Pick<Store, 'increment'>;
  clock: () => number;
  perMinute: Readonly<Record<LimitKind, number>>;
}): RateLimits {
  const { store, clock, perMinute } = parts;
  const callers = remembered<Entry>(MAX_CALLERS);
  /** Callers at their limit, which must not be evicted in their minute (R97). Few: each has sent as many requests as its limit. */
  const limited = new Map<string, Entry>();
  /** Callers whose last requests are still to be added to the store. */
  const unsaved = new Set<Entry>();

  const entryOf = (kind: LimitKind, id: string): Entry => {
    const caller = BY_ADDRESS.has(kind) ? callerNetwork(id) : id;
    const minute = Math.floor(clock() / MINUTE_MS);
    const name = `${kind} ${caller}`;
    const current = callers.get(name) ?? limited.get(name);
    if (current?.minute === minute) return current;
    const entry = { kind, caller, minute, limit: perMinute[kind], own: 0, stored: 0, total: 0 };
    callers.set(name, entry);
    return entry;
  };

  const retainIfLimited = (entry: Entry): void => {
    if (countOf(entry) >= entry.limit) limited.set(`${entry.kind} ${entry.caller}`, entry);
  };

  const headersOf = (kind: LimitKind, count: number): Record<string, string> =>
    perMinute[kind] === 0
      ? {}
      : {
          'RateLimit-Policy': `"${kind}";q=${perMinute[kind]};w=60`,
          RateLimit: `"${kind}";r=${Math.max(0, perMinute[kind] - count)};t=${secondsLeft(clock())}`,
        };

  const flushEntry = async (entry: Entry): Promise<void> => {
    const { kind, caller } = entry;
    const pending = entry.own - entry.stored;
    entry.stored += pending;
    // A failed write may have been done. Counted again, it would refuse callers who are below their limit.
    const total = await store
      .increment(keys.limit(kind, caller, entry.minute), pending, { lifetimeSeconds: LIFETIME_SECONDS })
      .catch(() => undefined);
    if (total !== undefined) entry.total = Math.max(entry.total, total);
    retainIfLimited(entry);
  };

  const flush = async (): Promise<void> => {
    const minute = Math.floor(clock() / MINUTE_MS);
    for (const [name, entry] of limited) if (entry.minute !== minute) limited.delete(name);
    const due = [...unsaved].filter((entry) => entry.minute === minute);
    unsaved.clear();
    await Promise.all(due.map(flushEntry));
  };

  const refusal = (kind: LimitKind, count: number) =>
    new AppError('rate_limited', {
      detail: kind === 'sign-in' ? TOO_MANY_SIGN_INS : TOO_MANY_REQUESTS,
      retryAfterSeconds: secondsLeft(clock()),
      headers: headersOf(kind, count),
    });

  const timer = setInterval(() => void flush(), FLUSH_MS).unref();

  /** The caller's entry for this minute; undefined without a limit. @throws AppError `rate_limited` if the limit is reached */
  const entryBelowLimit = (kind: LimitKind, caller: string, limit = perMinute[kind]): Entry | undefined => {
    if (limit === 0) return undefined;
    const entry = entryOf(kind, caller);
    entry.limit = limit;
    if (countOf(entry) >= limit) throw refusal(kind, countOf(entry));
    return entry;
  };

  return {
    take(kind, caller, limit) {
      const entry = entryBelowLimit(kind, caller, limit);
      if (!entry) return 0;
      entry.own += 1;
      if (entry.own >= entry.limit * STORED_FROM[kind]) unsaved.add(entry);
      retainIfLimited(entry);
      return countOf(entry);
    },

    check: (kind, caller) => void entryBelowLimit(kind, caller),

    headers: headersOf,
    flush,
    close: async () => clearInterval(timer),
  };
}

function countOf({ own, stored, total }: Entry): number {
  return Math.max(own, total + own - stored);
}

function secondsLeft(now: number): number {
  return Math.max(1, Math.ceil((MINUTE_MS - (now % MINUTE_MS)) / 1000));
}
