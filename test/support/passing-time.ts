/** Lets time pass for everything in this process: Gatehouse and the sandbox both go by `Date.now`. */
const realNow = Date.now;
let aheadMilliseconds = 0;
Date.now = () => realNow() + aheadMilliseconds;

/** Negative seconds set the clock back. */
export function pass(seconds: number): void {
  aheadMilliseconds += seconds * 1000;
}

/** For what is counted by the minute: the next one begins, and lasts for what follows. */
export function passToNextMinute(): void {
  pass(60 - (Math.floor(Date.now() / 1000) % 60));
}

export function backToNow(): void {
  aheadMilliseconds = 0;
}
