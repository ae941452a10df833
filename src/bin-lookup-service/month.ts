/** The period that requests are counted by: a calendar month in UTC. */

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

/** Returns `last` while it is current, because computing the month for each request would be slow. */
export function monthAt(now: number, last: Month): Month {
  return now >= last.start && now < last.end ? last : monthOf(now);
}

/** Whole seconds until the month ends, at least 1. */
export function secondsLeft({ end }: Month, now: number): number {
  return Math.max(1, Math.ceil((end - now) / 1000));
}
