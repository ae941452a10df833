/** Limits the requests of a caller per minute, counted across processes without a write for each request. */
import type { Config } from '../config/config.ts';
import { callerNetwork } from '../config/networks.ts';
import { AppError } from '../errors.ts';
import { remembered } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

/**
 * `address`, `session`, `relay-token` and `plan` (an account of the BIN lookup service) count requests. The others
 * count by address: `sign-in` and `callback` the sign-ins that start and come back, `guess` invalid relay and admin
 * tokens, `logout-token` refused logout tokens.
 */
export type LimitKind =
  | 'address'
  | 'session'
  | 'relay-token'
  | 'plan'
  | 'sign-in'
  | 'callback'
  | 'guess'
  | 'logout-token';

interface Entry {
  kind: LimitKind;
  caller: string;
  minute: number;
  limit: number;
  /** Requests that this process has counted. */
  local: number;
  /** The local requests that this process has added to the store. */
  flushed: number;
  /** The store's count of all processes when this process last added to it. */
  combined: number;
}

const MINUTE_MS = 60_000;
/** A client that spreads requests over several processes can exceed the limit for this long. */
const FLUSH_MS = 300;
/**
 * The part of its limit from which a caller causes writes. For addresses, which anonymous clients have, it is half of
 * the limit (R54).
 */
const STORED_FROM: Readonly<Record<LimitKind, number>> = {
  address: 0.5,
  session: 0.05,
  'relay-token': 0.05,
  plan: 0.05,
  'sign-in': 0.5,
  callback: 0.5,
  guess: 0.5,
  'logout-token': 0.5,
};
const BY_ADDRESS: ReadonlySet<LimitKind> = new Set(['address', 'sign-in', 'callback', 'guess', 'logout-token']);
const MAX_CALLERS = 50_000;
const LIFETIME_SECONDS = 120;

const TOO_MANY_REQUESTS =
  'You have sent more requests than a caller may send in a minute. Retry after the time in Retry-After.';
const TOO_MANY_SIGN_INS =
  'Too many sign-ins were started from your network address within a minute. Wait a minute, then try again.';
const TOO_MANY_CALLBACKS =
  'Too many sign-ins came back from your network address within a minute. Wait a minute, then reload this page.';
const DETAILS: Partial<Record<LimitKind, string>> = { 'sign-in': TOO_MANY_SIGN_INS, callback: TOO_MANY_CALLBACKS };

/** The limit per address: enough for a misconfigured service, and too few to guess relay or admin tokens. */
const WRONG_TOKENS_PER_MINUTE = 100;
/** Sign-ins that started in one minute may come back together with those of the next, or be reloaded. */
const CALLBACKS_PER_START = 2;

/** Returns the limits of the settings, and the fixed limits of wrong tokens. */
export function limitsOf({ relayToken, signIns, ...rest }: Config['rateLimits']): Readonly<Record<LimitKind, number>> {
  return {
    ...rest,
    'relay-token': relayToken,
    plan: 0,
    'sign-in': signIns,
    callback: signIns * CALLBACKS_PER_START,
    guess: WRONG_TOKENS_PER_MINUTE,
    'logout-token': WRONG_TOKENS_PER_MINUTE,
  };
}

export interface RateLimits {
  /**
   * Counts a request of the caller.
   * @param limit limit of this caller, if callers of this kind have different limits
   * @returns the caller's requests in this minute
   * @throws AppError `rate_limited` beyond the limit
   */
  take(kind: LimitKind, caller: string, limit?: number): number;
  /** Returns the headers of draft-ietf-httpapi-ratelimit-headers after `count` requests; empty without a limit. */
  headers(kind: LimitKind, count: number): Record<string, string>;
  /** Writes pending counts of this minute to the store now. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** @param parts `perMinute`: the limit of each kind; 0 for none */
export function createRateLimits(parts: {
  store: Pick<Store, 'increment'>;
  clock: () => number;
  perMinute: Readonly<Record<LimitKind, number>>;
}): RateLimits {
  const { store, clock, perMinute } = parts;
  const callers = remembered<Entry>(MAX_CALLERS);
  /** The few callers at their limit, which must not be evicted within the minute (R97). */
  const limitedCallers = new Map<string, Entry>();
  /** Callers whose latest counts have not been added to the store. */
  const unflushedEntries = new Set<Entry>();

  const entryOf = (kind: LimitKind, id: string): Entry => {
    const caller = BY_ADDRESS.has(kind) ? callerNetwork(id) : id;
    const minute = Math.floor(clock() / MINUTE_MS);
    const name = `${kind} ${caller}`;
    const current = callers.get(name) ?? limitedCallers.get(name);
    if (current?.minute === minute) return current;
    const entry = { kind, caller, minute, limit: perMinute[kind], local: 0, flushed: 0, combined: 0 };
    callers.set(name, entry);
    return entry;
  };

  const retainIfLimited = (entry: Entry): void => {
    if (countOf(entry) >= entry.limit) limitedCallers.set(`${entry.kind} ${entry.caller}`, entry);
  };

  const headersOf = (kind: LimitKind, count: number): Record<string, string> =>
    perMinute[kind] === 0
      ? {}
      : {
          'RateLimit-Policy': `"${kind}";q=${perMinute[kind]};w=60`,
          RateLimit: `"${kind}";r=${Math.max(0, perMinute[kind] - count)};t=${secondsUntilNextMinute(clock())}`,
        };

  const flushEntry = async (entry: Entry): Promise<void> => {
    const { kind, caller } = entry;
    const pending = entry.local - entry.flushed;
    entry.flushed += pending;
    // A failed write may have taken effect: a retry could count twice, and refuse callers below their limit.
    const combined = await store
      .increment(keys.limit(kind, caller, entry.minute), pending, { lifetimeSeconds: LIFETIME_SECONDS })
      .catch(() => undefined);
    if (combined !== undefined) entry.combined = Math.max(entry.combined, combined);
    retainIfLimited(entry);
  };

  const flush = async (): Promise<void> => {
    const minute = Math.floor(clock() / MINUTE_MS);
    for (const [name, entry] of limitedCallers) if (entry.minute !== minute) limitedCallers.delete(name);
    const dueEntries = [...unflushedEntries].filter((entry) => entry.minute === minute);
    unflushedEntries.clear();
    await Promise.all(dueEntries.map(flushEntry));
  };

  const refusal = (kind: LimitKind, count: number) =>
    new AppError('rate_limited', {
      detail: DETAILS[kind] ?? TOO_MANY_REQUESTS,
      retryAfterSeconds: secondsUntilNextMinute(clock()),
      headers: headersOf(kind, count),
    });

  const timer = setInterval(() => void flush(), FLUSH_MS).unref();

  return {
    take(kind, caller, limit = perMinute[kind]) {
      if (limit === 0) return 0;
      const entry = entryOf(kind, caller);
      entry.limit = limit;
      if (countOf(entry) >= limit) throw refusal(kind, countOf(entry));
      entry.local += 1;
      if (entry.local >= entry.limit * STORED_FROM[kind]) unflushedEntries.add(entry);
      retainIfLimited(entry);
      return countOf(entry);
    },

    headers: headersOf,
    flush,
    close: async () => clearInterval(timer),
  };
}

function countOf({ local, flushed, combined }: Entry): number {
  return Math.max(local, combined + local - flushed);
}

function secondsUntilNextMinute(now: number): number {
  return Math.max(1, Math.ceil((MINUTE_MS - (now % MINUTE_MS)) / 1000));
}
