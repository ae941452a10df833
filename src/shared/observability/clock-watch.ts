/** Detects that the system's clock was set, since sessions and tokens expire by it. */

const CHECK_INTERVAL_MS = 10_000;
const MIN_JUMP_MS = 30_000;

/**
 * Compares the system's clock with the monotonic clock. A suspended machine counts as a jump.
 * @returns a function that stops the watch
 */
export function watchClock(parts: {
  clock: () => number;
  monotonicClock: () => number;
  onJump: (seconds: number) => void;
  intervalMilliseconds?: number;
}): () => void {
  const { clock, monotonicClock, onJump, intervalMilliseconds = CHECK_INTERVAL_MS } = parts;
  const difference = () => clock() - monotonicClock();
  let before = difference();
  const timer = setInterval(() => {
    const now = difference();
    const jump = now - before;
    before = now;
    if (Math.abs(jump) >= MIN_JUMP_MS) onJump(Math.round(jump / 1_000));
  }, intervalMilliseconds);
  timer.unref();
  return () => clearInterval(timer);
}
