/** Owns our own limits: how many requests one caller has in a minute, counted by all processes together without a write for each. */
import ipaddr from 'ipaddr.js';
import { AppError } from '../errors.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

/** Who is counted: an address, a session, a relay token, and whoever guesses relay or admin tokens from an address. */
export type LimitKind = 'address' | 'session' | 'relay-token' | 'guess';

export interface RateLimits {
  /** Counts one request of this caller, and answers how many there were in this minute. @throws AppError `rate_limited` where it is one too many */
  take(kind: LimitKind, whom: string): number;
  /** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers) after so many; none where there is no limit. */
  headers(kind: LimitKind, count: number): Record<string, string>;
  /** The same without counting. @throws AppError `rate_limited` where the limit is reached */
  check(kind: LimitKind, whom: string): void;
  /** Hands on what is counted and not told yet. */
  settle(): Promise<void>;
  close(): void;
}

interface Entry {
  minute: number;
  /** Requests to this process. */
  own: number;
  /** Of those, how many the store knows. */
  told: number;
  /** What all processes had told when this one last did. */
  all: number;
}

const MINUTE_MILLISECONDS = 60_000;
const TELL_MILLISECONDS = 300;
/**
 * Whoever stays below this part of the limit costs no write; the others are told to all processes several times a second.
 * Addresses need no leave to come, so they have to come much oftener before they leave anything in the store (R54).
 */
const TOLD_FROM: Readonly<Record<LimitKind, number>> = { address: 0.5, session: 0.05, 'relay-token': 0.05, guess: 0.5 };
const MOST_CALLERS = 50_000;
const KEPT_SECONDS = 120;

/** @param parts `perMinute`: 0 for no limit */
export function createRateLimits(parts: {
  store: Pick<Store, 'increment'>;
  clock: () => number;
  perMinute: Readonly<Record<LimitKind, number>>;
}): RateLimits {
  const { store, clock, perMinute } = parts;
  const callers = new Map<string, { kind: LimitKind; whom: string; entry: Entry }>();

  const entryOf = (kind: LimitKind, given: string): Entry => {
    const whom = kind === 'address' || kind === 'guess' ? networkOf(given) : given;
    const minute = Math.floor(clock() / MINUTE_MILLISECONDS);
    const name = `${kind} ${whom}`;
    const known = callers.get(name)?.entry;
    if (known?.minute === minute) return known;
    if (callers.size >= MOST_CALLERS) callers.clear();
    const entry = { minute, own: 0, told: 0, all: 0 };
    callers.set(name, { kind, whom, entry });
    return entry;
  };

  const headersOf = (kind: LimitKind, count: number): Record<string, string> =>
    perMinute[kind] === 0
      ? {}
      : {
          'RateLimit-Policy': `"${kind}";q=${perMinute[kind]};w=60`,
          RateLimit: `"${kind}";r=${Math.max(0, perMinute[kind] - count)};t=${secondsLeft(clock())}`,
        };

  const tell = async (kind: LimitKind, whom: string, entry: Entry): Promise<void> => {
    const more = entry.own - entry.told;
    if (more === 0 || entry.own < perMinute[kind] * TOLD_FROM[kind]) return;
    entry.told += more;
    const all = await store
      .increment(keys.limit(kind, whom, entry.minute), more, { lifetimeSeconds: KEPT_SECONDS })
      .catch(() => undefined);
    if (all !== undefined) entry.all = Math.max(entry.all, all);
  };

  const tellAll = async (): Promise<void> => {
    const minute = Math.floor(clock() / MINUTE_MILLISECONDS);
    for (const [name, { entry }] of callers) if (entry.minute !== minute) callers.delete(name);
    await Promise.all([...callers.values()].map(({ kind, whom, entry }) => tell(kind, whom, entry)));
  };

  const refuse = (kind: LimitKind, count: number): never => {
    throw new AppError('rate_limited', {
      detail: 'These are more requests than one caller may send in a minute. Wait as long as Retry-After says.',
      retryAfterSeconds: secondsLeft(clock()),
      headers: headersOf(kind, count),
    });
  };

  const timer = setInterval(() => void tellAll(), TELL_MILLISECONDS).unref();

  return {
    take(kind, whom) {
      const limit = perMinute[kind];
      if (limit === 0) return 0;
      const entry = entryOf(kind, whom);
      if (countOf(entry) >= limit) refuse(kind, countOf(entry));
      entry.own += 1;
      return countOf(entry);
    },
    headers: headersOf,
    check(kind, whom) {
      const limit = perMinute[kind];
      if (limit === 0) return;
      const count = countOf(entryOf(kind, whom));
      if (count >= limit) refuse(kind, count);
    },
    settle: tellAll,
    close: () => clearInterval(timer),
  };
}

function countOf({ own, told, all }: Entry): number {
  return Math.max(own, all + own - told);
}

function secondsLeft(now: number): number {
  return Math.max(1, Math.ceil((MINUTE_MILLISECONDS - (now % MINUTE_MILLISECONDS)) / 1000));
}

/** Whoever has one IPv6 address has the 2^64 beside it as well. */
function networkOf(address: string): string {
  if (!address.includes(':') || !ipaddr.IPv6.isValid(address)) return address;
  return ipaddr.IPv6.networkAddressFromCIDR(`${ipaddr.IPv6.parse(address).toNormalizedString()}/64`).toString();
}
