/** Owns the month that requests are counted by: a calendar month in UTC. Pure. */

export interface Month {
  /** YYYY-MM. */
  id: string;
  /** Milliseconds since the epoch; `end` is the next month's start. */
  start: number;
  end: number;
}

/** @param now milliseconds since the epoch */
export function monthOf(now: number): Month {
  const date = new Date(now);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  return { id: date.toISOString().slice(0, 7), start: Date.UTC(year, month, 1), end: Date.UTC(year, month + 1, 1) };
}

/** Answers `known` as long as the time lies in it, so that a busy service does not work the month out at each request. */
export function monthAt(now: number, known: Month): Month {
  return now >= known.start && now < known.end ? known : monthOf(now);
}

/** Whole seconds until the month ends, 1 at least. */
export function secondsLeft({ end }: Month, now: number): number {
  return Math.max(1, Math.ceil((end - now) / 1000));
}
