/** Looks up host names: one lookup at a time for each name, shared by all its callers, and never every thread for slow names. */
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
   * All addresses of a name, at most 5 s old. They are not judged.
   * @throws UnresolvedName after 3 s; the error of the resolver, at most 1 s old
   */
  resolve(hostname: string, options?: LookupOptions): Promise<readonly LookupAddress[]>;
  /** True while the name is being looked up. */
  isUnderWay(hostname: string): boolean;
}

/** @param again the name was reported within the last minute */
export type OnSlowName = (slow: { host: string; again?: true | undefined }) => void;

const SHARED_MS = 5_000;
const SHARED_FAILURE_MS = 1_000;
const SLOW_MS = 1_000;
/** How long a name that was slow counts as slow. */
const SLOW_FOR_MS = 60_000;
/** For each caller. Less than the timeout for a connection, which would blame the host. */
const WAIT_MS = 3_000;
const MAX_NAMES = 1_000;

interface Lookup {
  result: Promise<readonly LookupAddress[]>;
  startedAt: number;
  /** Until when its result is shared; undefined while it is under way. */
  sharedUntil?: number;
}

/** What is known of a name from earlier lookups. Times by `performance.now()`. */
interface Name {
  /** Its last lookup took less than a second. */
  isQuick: boolean;
  slowAt?: number;
  reportedAt?: number;
  underWay: number;
}

/** Node's default. */
const DEFAULT_THREADS = 4;

/** @param parts `threads`: of Node's pool. libuv uses at most half of them for lookups, also for those of others, such as ioredis */
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
  const maxWithNew = Math.max(2, slots - maxSlow);
  /** Lookups of names without a result so far, which may all turn out to be slow. */
  const queue: (() => void)[] = [];
  let running = 0;
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
      running += 1;
      let countsAsSlow = isSlow(name);
      if (countsAsSlow) slow += 1;
      let tookLong = false;
      const timer = setTimeout(() => {
        tookLong = true;
        if (!countsAsSlow) slow += 1;
        countsAsSlow = true;
        name.slowAt = performance.now();
        reportSlow(hostname, name);
      }, SLOW_MS);
      timer.unref();
      lookup(hostname, { ...options, all: true }, (error, addresses) => {
        clearTimeout(timer);
        running -= 1;
        if (countsAsSlow) slow -= 1;
        name.isQuick = !tookLong;
        if (tookLong) name.slowAt = performance.now();
        else delete name.slowAt;
        if (error) reject(error);
        else resolve(addresses);
        if (running < maxWithNew) queue.shift()?.();
      });
    });

  const start = (key: string, hostname: string, name: Name, options: LookupOptions): Lookup => {
    const started = performance.now();
    const mustWait = !name.isQuick && running >= maxWithNew;
    const turn = mustWait ? new Promise<void>((resolve) => queue.push(resolve)) : undefined;
    const result = turn ? turn.then(() => run(hostname, name, options)) : run(hostname, name, options);
    const one: Lookup = { result, startedAt: started };
    name.underWay += 1;
    const end = (sharedMs: number) => () => {
      name.underWay -= 1;
      one.sharedUntil = performance.now() + sharedMs;
    };
    result.then(end(SHARED_MS), end(SHARED_FAILURE_MS));
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
      if (isSlow(name) && slow >= maxSlow) throw new UnresolvedName(hostname, true);
      return inTime(hostname, start(key, hostname, name, options));
    },
    isUnderWay: (hostname) => (names.peek(hostname)?.underWay ?? 0) > 0,
  };
}

/** @throws UnresolvedName where the lookup takes longer than a caller waits */
function inTime(hostname: string, { result, startedAt, sharedUntil }: Lookup): Promise<readonly LookupAddress[]> {
  if (sharedUntil !== undefined) return result;
  return new Promise((resolve, reject) => {
    const left = Math.max(0, startedAt + WAIT_MS - performance.now());
    const timer = setTimeout(() => reject(new UnresolvedName(hostname, false)), left);
    result.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
