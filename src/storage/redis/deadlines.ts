/** The deadline of commands: one timer for all that wait, and a last look at the socket before giving up. */

import { unavailable } from './faults.ts';

export interface Deadlines {
  /** Settles as the promise does, or calls `onExpired` and rejects with `storage_unavailable` once the time is over. */
  bound<T>(promise: Promise<T>, onExpired?: () => void): Promise<T>;
}

interface Waiting {
  until: number;
  giveUp(): void;
}

export function createDeadlines(milliseconds: number): Deadlines {
  /** All wait equally long, so the order of coming is the order of the deadlines. */
  const waiting = new Set<Waiting>();
  let timer: NodeJS.Timeout | undefined;

  function expire(): void {
    timer = undefined;
    for (const entry of waiting) {
      if (entry.until > performance.now()) {
        arm(Math.ceil(entry.until - performance.now()));
        return;
      }
      waiting.delete(entry);
      entry.giveUp();
    }
  }

  /** Timers come before input in a turn of the event loop: after a stall the answers may lie there unread. */
  function arm(delay: number): void {
    timer = setTimeout(() => setImmediate(expire), delay);
  }

  function add(entry: Waiting): void {
    waiting.add(entry);
    if (timer) timer.ref();
    else arm(milliseconds);
  }

  /** With nothing to wait for the timer goes on, for the next command, but keeps no process alive. */
  function remove(entry: Waiting): void {
    waiting.delete(entry);
    if (waiting.size === 0) timer?.unref();
  }

  return {
    bound: (promise, onExpired) =>
      new Promise((resolve, reject) => {
        const giveUp = () => {
          onExpired?.();
          reject(unavailable('Redis did not answer before the deadline'));
        };
        const entry = { until: performance.now() + milliseconds, giveUp };
        add(entry);
        promise.then(
          (value) => {
            remove(entry);
            resolve(value);
          },
          (error: unknown) => {
            remove(entry);
            reject(error);
          },
        );
      }),
  };
}
