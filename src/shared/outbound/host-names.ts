/** Looks up host names: one lookup of a name at a time, shared by its callers; no kind of name takes every thread. */
import type { LookupAddress, LookupOptions, lookup as systemLookup } from 'node:dns';
import { remembered } from '../remembered.ts';

/** A name that was not resolved in time, or was not looked up because too many names are slow. */
export class UnresolvedName extends Error {
  readonly code = 'NAME_TIMEOUT';
  readonly hostname: string;
  /** True where the name was not looked up. */
  readonly refused: boolean;
  constructor(hostname: string, refused: boolean) {
    super(refused ? 'Too many slow host names are being looked up.' : 'The host name was not resolved in time.');
    this.hostname = hostname;
    this.refused = refused;
  }
}

export interface HostNames {
  /**
   * All addresses of a name, not judged. At most 5 s old; after a second without a result, those of the last minute.
   * @throws UnresolvedName after 3 s without any; the error of the resolver, at most 1 s old
   */
  resolve(hostname: string, options?: LookupOptions): Promise<readonly LookupAddress[]>;
  /** True while calls wait for the lookup of the name, since there are no addresses of the last minute. */
  isAwaited(hostname: string): boolean;
}

/** @param again the name was reported within the last minute */
export type OnSlowName = (slow: { host: string; again?: true | undefined }) => void;

const SHARED_MS = 5_000;
const SHARED_FAILURE_MS = 1_000;
const SLOW_MS = 1_000;
/** How long the addresses of a name are used where it is not resolved again. */
const LAST_GOOD_MS = 60_000;
/** How long a name that was slow counts as slow. */
const SLOW_FOR_MS = 60_000;
/** For each caller. Less than the timeout for a connection, which would blame the host. */
const WAIT_MS = 3_000;
const MAX_NAMES = 1_000;

interface Lookup {
  result: Promise<readonly LookupAddress[]>;
  /** Of this lookup or an earlier one. */
  lastGood?: { addresses: readonly LookupAddress[]; until: number } | undefined;
  startedAt: number;
  /** Until when its result is shared; undefined while it is under way. */
  sharedUntil?: number;
}

/** What is known of a name from earlier lookups. Times by `performance.now()`. */
interface Name {
  /** Its last lookup ended within a second, and one that is under way has taken no longer so far. */
  isQuick: boolean;
  goodUntil?: number;
  slowAt?: number;
  reportedAt?: number;
  underWay: number;
}

/** Node's default. */
const DEFAULT_THREADS = 4;

/** @param parts `threads`: of Node's pool. libuv uses at most half of them for all lookups, also those of ioredis */
export function createHostNames(parts: {
  lookup: typeof systemLookup;
  onSlow?: OnSlowName | undefined;
  threads?: number | undefined;
}): HostNames {
  const { lookup, onSlow, threads = DEFAULT_THREADS } = parts;
  const slots = Math.ceil(threads / 2);
  const lookups = remembered<Lookup>(MAX_NAMES);
  const names = remembered<Name>(MAX_NAMES);
  const maxSlow = Math.max(1, Math.floor(slots / 4));
  const maxOfKind = Math.max(1, slots - maxSlow);
  /** Names whose zone has stopped to resolve are here at first. */
  const quickNames = createLine(maxOfKind);
  /** New names, which may all turn out to be slow, and slow ones. */
  const otherNames = createLine(maxOfKind);
  let slow = 0;

  const isSlow = ({ slowAt }: Name) => slowAt !== undefined && performance.now() - slowAt < SLOW_FOR_MS;

  const reportSlow = (host: string, name: Name): void => {
    const now = performance.now();
    const again = name.reportedAt !== undefined && now - name.reportedAt < SLOW_FOR_MS ? true : undefined;
    if (!again) name.reportedAt = now;
    onSlow?.({ host, again });
  };

  /** Calls the resolver. A lookup that takes longer than a second counts as slow while it runs. */
  const run = (hostname: string, name: Name, options: LookupOptions): Promise<readonly LookupAddress[]> =>
    new Promise((resolve, reject) => {
      let countsAsSlow = isSlow(name);
      if (countsAsSlow) slow += 1;
      let tookLong = false;
      const timer = setTimeout(() => {
        tookLong = true;
        if (!countsAsSlow) slow += 1;
        countsAsSlow = true;
        name.isQuick = false;
        name.slowAt = performance.now();
        reportSlow(hostname, name);
      }, SLOW_MS);
      timer.unref();
      lookup(hostname, { ...options, all: true }, (error, addresses) => {
        clearTimeout(timer);
        if (countsAsSlow) slow -= 1;
        name.isQuick = !tookLong;
        if (tookLong) name.slowAt = performance.now();
        else delete name.slowAt;
        if (error) reject(error);
        else resolve(addresses);
      });
    });

  const start = (key: string, hostname: string, name: Name, options: LookupOptions): Lookup => {
    const line = name.isQuick ? quickNames : otherNames;
    const one: Lookup = {
      startedAt: performance.now(),
      result: line.run(() => run(hostname, name, options)),
      lastGood: lookups.peek(key)?.lastGood,
    };
    name.underWay += 1;
    const end = (sharedMs: number) => {
      name.underWay -= 1;
      one.sharedUntil = performance.now() + sharedMs;
    };
    one.result.then(
      (addresses) => {
        end(SHARED_MS);
        name.goodUntil = performance.now() + LAST_GOOD_MS;
        one.lastGood = { addresses, until: name.goodUntil };
      },
      () => end(SHARED_FAILURE_MS),
    );
    lookups.set(key, one);
    return one;
  };

  return {
    async resolve(hostname, options = {}) {
      const { family = 0, hints = 0 } = options;
      const key = `${hostname} ${family} ${hints}`;
      const earlier = lookups.get(key);
      const isShared = earlier && (earlier.sharedUntil === undefined || performance.now() < earlier.sharedUntil);
      if (isShared) return inTime(hostname, earlier);
      const name = names.get(hostname) ?? { isQuick: false, underWay: 0 };
      names.set(hostname, name);
      if (isSlow(name) && slow >= maxSlow) {
        const lastGood = addressesOf(earlier);
        if (lastGood) return lastGood;
        throw new UnresolvedName(hostname, true);
      }
      return inTime(hostname, start(key, hostname, name, options));
    },
    isAwaited(hostname) {
      const { underWay, goodUntil = 0 } = names.peek(hostname) ?? { underWay: 0 };
      return underWay > 0 && goodUntil <= performance.now();
    },
  };
}

/** The addresses of the last minute, if there are any. */
function addressesOf({ lastGood }: Pick<Lookup, 'lastGood'> = {}): readonly LookupAddress[] | undefined {
  return lastGood && performance.now() < lastGood.until ? lastGood.addresses : undefined;
}

/** @throws UnresolvedName where the lookup takes longer than a caller waits */
function inTime(hostname: string, lookup: Lookup): Promise<readonly LookupAddress[]> {
  const { result, startedAt, sharedUntil } = lookup;
  if (sharedUntil !== undefined) return result;
  return new Promise((resolve, reject) => {
    const lastGood = addressesOf(lookup);
    const left = Math.max(0, startedAt + (lastGood ? SLOW_MS : WAIT_MS) - performance.now());
    const timer = setTimeout(() => (lastGood ? resolve(lastGood) : reject(new UnresolvedName(hostname, false))), left);
    result.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Runs at most so many at a time; the others in their order. */
function createLine(max: number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return {
    async run<T>(work: () => Promise<T>): Promise<T> {
      if (running >= max) await new Promise<void>((resolve) => waiting.push(resolve));
      else running += 1;
      try {
        return await work();
      } finally {
        // The place passes to the next one.
        const next = waiting.shift();
        if (next) next();
        else running -= 1;
      }
    },
  };
}
