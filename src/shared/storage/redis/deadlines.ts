/** Deadlines of commands. */
import { unavailable } from '../unavailable.ts';

/** Settles like the promise, or calls `onExpired` and rejects with `storage_unavailable` at the deadline. */
export function withDeadline<T>(promise: Promise<T>, milliseconds: number, onExpired?: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    let settled = false;
    const expire = () => {
      if (settled) return;
      onExpired?.();
      reject(unavailable('Redis did not respond before the deadline'));
    };
    // The event loop runs timers before it reads input, so after a stall the response may not have been read yet.
    const timer = setTimeout(() => setImmediate(expire), milliseconds);
    const settle = () => {
      settled = true;
      clearTimeout(timer);
    };
    promise.then(
      (value) => {
        settle();
        resolve(value);
      },
      (error: unknown) => {
        settle();
        reject(error);
      },
    );
  });
}
