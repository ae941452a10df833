/** What the machine itself adds to an answer just now, measured on one that waits for nothing, so that promises in milliseconds can be held to beside other tests. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LONG } from './report.ts';

export interface StallWatch {
  /** The milliseconds that may be added to what is promised: 0 in a long run, which has the machine to itself. */
  stop(): Promise<number>;
}

const PAUSE_MILLISECONDS = 25;
/** A process that keeps everybody waiting for longer than this is not excused by the machine. */
const MOST_MILLISECONDS = 500;

/** @param ask for what is answered at once on any machine, whatever is broken */
export function watchStalls(ask: () => Promise<unknown>): StallWatch {
  let watching = true;
  let slowest = 0;
  const watched = (async () => {
    while (watching) {
      const since = performance.now();
      await ask();
      slowest = Math.max(slowest, performance.now() - since);
      await sleep(PAUSE_MILLISECONDS);
    }
  })();
  // Where the test has failed meanwhile nobody stops it, and its processes end under it.
  watched.catch(() => undefined);
  return {
    async stop() {
      watching = false;
      await watched;
      return LONG ? 0 : Math.min(slowest, MOST_MILLISECONDS);
    },
  };
}
