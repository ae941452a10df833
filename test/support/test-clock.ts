/** Moves the clock of this process, which Gatehouse and the sandbox read with `Date.now`. */
const realNow = Date.now;
let aheadMilliseconds = 0;
Date.now = () => realNow() + aheadMilliseconds;

/** Negative seconds set the clock back. */
export function advanceClock(seconds: number): void {
  aheadMilliseconds += seconds * 1000;
}

/** Moves to the start of the next minute, for counters that reset every minute. */
export function advanceToNextMinute(): void {
  advanceClock(60 - (Math.floor(Date.now() / 1000) % 60));
}

export function resetClock(): void {
  aheadMilliseconds = 0;
}
