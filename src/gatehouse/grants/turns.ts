/** Lets work with one key run one at a time in this process, in the order of the calls. */

/** How long the next work with the key waits, so that work elsewhere can take the lease that both need. */
const PAUSE_MS = 100;
/** A call waits no longer than this for its turn. */
const MAX_WAIT_MS = 30_000;

/** Does the work once it has its turn; returns undefined if it gets none in time. */
export type InTurn = <T>(key: string, work: () => Promise<T>) => Promise<{ value: T } | undefined>;

export function createTurns(): InTurn {
  /** By key: resolves once all calls so far have had their turn. */
  const ends = new Map<string, Promise<void>>();

  return async (key, work) => {
    const previousEnd = ends.get(key);
    const turn = Promise.withResolvers<void>();
    const end = turn.promise.then(() => previousEnd);
    ends.set(key, end);
    void end.then(() => {
      if (ends.get(key) === end) ends.delete(key);
    });
    let pauseMs = 0;
    try {
      if (previousEnd && !(await isResolvedInTime(previousEnd))) return undefined;
      pauseMs = PAUSE_MS;
      return { value: await work() };
    } finally {
      setTimeout(turn.resolve, pauseMs);
    }
  };
}

function isResolvedInTime(promise: Promise<void>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, MAX_WAIT_MS, false);
    void promise.then(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
