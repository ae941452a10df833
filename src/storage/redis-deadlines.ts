/** Owns the deadline of commands: one timer for all that wait, and a last look at the socket before giving up. */

import { createSlots } from '../slots.ts';
import { unavailable } from './redis-faults.ts';

export interface Deadlines {
  /** Settles as the promise does, or rejects with `storage_unavailable` once the time is over. */
  bound<T>(promise: Promise<T>): Promise<T>;
}

interface Waiting {
  /** Infinite once it was given up. */
  until: number;
  giveUp(): void;
}

export function createDeadlines(milliseconds: number): Deadlines {
  const waiting = createSlots<Waiting>();
  /** How many may still be given up. */
  let pending = 0;
  let timer: NodeJS.Timeout | undefined;

  function expire(): void {
    timer = undefined;
    const now = performance.now();
    let next = Number.POSITIVE_INFINITY;
    for (const entry of waiting.values()) {
      if (entry.until > now) {
        next = Math.min(next, entry.until);
        continue;
      }
      entry.until = Number.POSITIVE_INFINITY;
      pending -= 1;
      entry.giveUp();
    }
    if (pending > 0) arm(Math.ceil(next - now));
  }

  /** Timers come before input in a turn of the event loop: after a stall the answers may lie there unread. */
  function arm(delay: number): void {
    timer = setTimeout(() => setImmediate(expire), delay);
  }

  function enter(entry: Waiting): number {
    pending += 1;
    if (timer) timer.ref();
    else arm(milliseconds);
    return waiting.enter(entry);
  }

  /** With nothing to wait for the timer goes on, for the next command, but keeps no process alive. */
  function leave(slot: number, entry: Waiting): void {
    waiting.leave(slot);
    if (entry.until < Number.POSITIVE_INFINITY) pending -= 1;
    if (pending === 0) timer?.unref();
  }

  return {
    bound: (promise) =>
      new Promise((resolve, reject) => {
        const giveUp = () => reject(unavailable('Redis did not answer before the deadline'));
        const entry = { until: performance.now() + milliseconds, giveUp };
        const slot = enter(entry);
        promise.then(
          (value) => {
            leave(slot, entry);
            resolve(value);
          },
          (error: unknown) => {
            leave(slot, entry);
            reject(error);
          },
        );
      }),
  };
}
