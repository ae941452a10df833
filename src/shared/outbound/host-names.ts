/** Looks up host names: callers share the lookup of a name, and slow names never occupy all threads. */
import type { LookupAddress, LookupOptions, lookup as systemLookup } from 'node:dns';
import { remembered } from '../remembered.ts';

/** A name that was not resolved in time, or was not looked up because too many names are slow. */
export class UnresolvedName extends Error {
  readonly code = 'NAME_TIMEOUT';
  readonly hostname: string;
  /** True if the name was not looked up. */
  readonly isRefused: boolean;
  constructor(hostname: string, isRefused: boolean) {
    super(isRefused ? 'Too many slow host names are being looked up.' : 'The host name was not resolved in time.');
    this.hostname = hostname;
    this.isRefused = isRefused;
  }
}

export interface HostNames {
  /**
   * Returns all addresses of a name, unchecked. They are at most 5 s old, or up to a minute if a lookup takes over a
   * second.
   * @throws UnresolvedName after 3 s without a result, or the resolver's error, which is at most 1 s old
   */
  resolve(hostname: string, options?: LookupOptions): Promise<readonly LookupAddress[]>;
  /** Returns true while calls wait for the lookup of the name because no address of the last minute is known. */
  isAwaited(hostname: string): boolean;
}

/** @param slow `repeated`: the name was already reported within the last minute */
export type OnSlowName = (slow: { host: string; repeated?: true | undefined }) => void;

const SHARED_MS = 5_000;
const SHARED_FAILURE_MS = 1_000;
const SLOW_MS = 1_000;
/** How long the last addresses of a name are used while it does not resolve. */
const LAST_GOOD_MS = 60_000;
/** How long a name counts as slow after a slow lookup. */
const SLOW_FOR_MS = 60_000;
/** How long each caller waits. This is shorter than the connection timeout, whose error would blame the host. */
const WAIT_MS = 3_000;
const MAX_NAMES = 1_000;

interface Lookup {
  result: Promise<readonly LookupAddress[]>;
  /** The last addresses that this lookup or an earlier one found. */
  lastGood?: { addresses: readonly LookupAddress[]; until: number } | undefined;
  startedAt: number;
  /** When sharing of the result ends; undefined while the lookup runs. */
  sharedUntil?: number;
}

/** Facts about a name from earlier lookups; times are of `performance.now()`. */
interface Name {
  /** True if the last lookup ended within a second, and a running one has not yet taken longer. */
  isQuick: boolean;
  goodUntil?: number;
  slowAt?: number;
  reportedAt?: number;
  runningLookups: number;
}

/** Node's default size of its pool. */
const DEFAULT_POOL_SIZE = 4;

/**
 * @param parts `threadPoolSize`: that of Node's pool. libuv uses at most half of it for lookups, including those of
 *   ioredis
 */
export function createHostNames(parts: {
  lookup: typeof systemLookup;
  onSlow?: OnSlowName | undefined;
  threadPoolSize?: number | undefined;
}): HostNames {
  const { lookup, onSlow, threadPoolSize = DEFAULT_POOL_SIZE } = parts;
  const slots = Math.ceil(threadPoolSize / 2);
  const lookups = remembered<Lookup>(MAX_NAMES);
  const names = remembered<Name>(MAX_NAMES);
  const maxSlow = Math.max(1, Math.floor(slots / 4));
  const maxPerQueue = Math.max(1, slots - maxSlow);
  /** Also runs the first lookups of names that have just stopped resolving. */
  const quickQueue = createQueue(maxPerQueue);
  /** Runs the lookups of slow names, and of new ones, which may all be slow. */
  const otherQueue = createQueue(maxPerQueue);
  let slowLookups = 0;

  const isSlow = ({ slowAt }: Name) => slowAt !== undefined && performance.now() - slowAt < SLOW_FOR_MS;

  const reportSlow = (host: string, name: Name): void => {
    const now = performance.now();
    const repeated = name.reportedAt !== undefined && now - name.reportedAt < SLOW_FOR_MS ? true : undefined;
    if (!repeated) name.reportedAt = now;
    onSlow?.({ host, repeated });
  };

  /** Calls the resolver. A lookup that takes longer than a second counts as slow while it runs. */
  const run = (hostname: string, name: Name, options: LookupOptions): Promise<readonly LookupAddress[]> =>
    new Promise((resolve, reject) => {
      let countsAsSlow = isSlow(name);
      if (countsAsSlow) slowLookups += 1;
      let wasSlow = false;
      const timer = setTimeout(() => {
        wasSlow = true;
        if (!countsAsSlow) slowLookups += 1;
        countsAsSlow = true;
        name.isQuick = false;
        name.slowAt = performance.now();
        reportSlow(hostname, name);
      }, SLOW_MS);
      timer.unref();
      lookup(hostname, { ...options, all: true }, (error, addresses) => {
        clearTimeout(timer);
        if (countsAsSlow) slowLookups -= 1;
        name.isQuick = !wasSlow;
        if (wasSlow) name.slowAt = performance.now();
        else delete name.slowAt;
        if (error) reject(error);
        else resolve(addresses);
      });
    });

  const start = (key: string, hostname: string, name: Name, options: LookupOptions): Lookup => {
    const queue = name.isQuick ? quickQueue : otherQueue;
    const newLookup: Lookup = {
      startedAt: performance.now(),
      result: queue.run(() => run(hostname, name, options)),
      lastGood: lookups.peek(key)?.lastGood,
    };
    name.runningLookups += 1;
    const end = (sharedMs: number) => {
      name.runningLookups -= 1;
      newLookup.sharedUntil = performance.now() + sharedMs;
    };
    newLookup.result.then(
      (addresses) => {
        end(SHARED_MS);
        name.goodUntil = performance.now() + LAST_GOOD_MS;
        newLookup.lastGood = { addresses, until: name.goodUntil };
      },
      () => end(SHARED_FAILURE_MS),
    );
    lookups.set(key, newLookup);
    return newLookup;
  };

  return {
    async resolve(hostname, options = {}) {
      const { family = 0, hints = 0 } = options;
      const key = `${hostname} ${family} ${hints}`;
      const earlierLookup = lookups.get(key);
      const isShared =
        earlierLookup && (earlierLookup.sharedUntil === undefined || performance.now() < earlierLookup.sharedUntil);
      if (isShared) return waitFor(hostname, earlierLookup);
      const name = names.get(hostname) ?? { isQuick: false, runningLookups: 0 };
      names.set(hostname, name);
      if (isSlow(name) && slowLookups >= maxSlow) {
        const lastGood = lastGoodAddresses(earlierLookup);
        if (lastGood) return lastGood;
        throw new UnresolvedName(hostname, true);
      }
      return waitFor(hostname, start(key, hostname, name, options));
    },
    isAwaited(hostname) {
      const { runningLookups, goodUntil = 0 } = names.peek(hostname) ?? { runningLookups: 0 };
      return runningLookups > 0 && goodUntil <= performance.now();
    },
  };
}

/** Returns the addresses of the last minute, if there are any. */
function lastGoodAddresses({ lastGood }: Pick<Lookup, 'lastGood'> = {}): readonly LookupAddress[] | undefined {
  return lastGood && performance.now() < lastGood.until ? lastGood.addresses : undefined;
}

/** @throws UnresolvedName if the lookup takes longer than a caller waits */
function waitFor(hostname: string, lookup: Lookup): Promise<readonly LookupAddress[]> {
  const { result, startedAt, sharedUntil } = lookup;
  if (sharedUntil !== undefined) return result;
  return new Promise((resolve, reject) => {
    const lastGood = lastGoodAddresses(lookup);
    const remainingMs = Math.max(0, startedAt + (lastGood ? SLOW_MS : WAIT_MS) - performance.now());
    const timer = setTimeout(
      () => (lastGood ? resolve(lastGood) : reject(new UnresolvedName(hostname, false))),
      remainingMs,
    );
    result.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Creates a queue that runs at most `max` tasks at a time, in the order of the calls. */
function createQueue(max: number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return {
    async run<T>(task: () => Promise<T>): Promise<T> {
      if (running >= max) await new Promise<void>((resolve) => waiting.push(resolve));
      else running += 1;
      try {
        return await task();
      } finally {
        // The slot passes to the next task.
        const next = waiting.shift();
        if (next) next();
        else running -= 1;
      }
    },
  };
}
