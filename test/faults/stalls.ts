/** Measures the delay of the machine with requests that wait for nothing, to test deadlines under load. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LONG } from './report.ts';

export interface StallWatch {
  /** Returns the milliseconds to add to a deadline: 0 in a long run, which has the machine to itself. */
  stop(): Promise<number>;
}

const PAUSE_MILLISECONDS = 25;
/** A longer delay is a fault of the process, not of the machine. */
const MAX_MILLISECONDS = 500;

/** @param call sends requests that get a response at once, even during a fault */
export function watchStalls(call: () => Promise<unknown>): StallWatch {
  let isWatching = true;
  let slowest = 0;
  const loop = (async () => {
    while (isWatching) {
      const startedAt = performance.now();
      await call();
      slowest = Math.max(slowest, performance.now() - startedAt);
      await sleep(PAUSE_MILLISECONDS);
    }
  })();
  // After a failed test, `stop` is not called and the processes end.
  loop.catch(() => undefined);
  return {
    async stop() {
      isWatching = false;
      await loop;
      return LONG ? 0 : Math.min(slowest, MAX_MILLISECONDS);
    },
  };
}
