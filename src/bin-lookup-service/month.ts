/** The period for which requests are counted: a calendar month in UTC. */

export interface Month {
  /** In the form YYYY-MM. */
  id: string;
  /** Milliseconds since the epoch. `end` is the start of the next month. */
  start: number;
  end: number;
}

/** @param now milliseconds since the epoch */
export function monthOf(now: number): Month {
  const date = new Date(now);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  return { id: date.toISOString().slice(0, 7), start: Date.UTC(year, month, 1), end: Date.UTC(year, month + 1, 1) };
}

/** Returns `cached` while it is the current month, because computing the month for each request would be slow. */
export function monthAt(now: number, cached: Month): Month {
  return now >= cached.start && now < cached.end ? cached : monthOf(now);
}

/** Returns the whole seconds until the month ends, at least 1. */
export function secondsLeft({ end }: Month, now: number): number {
  return Math.max(1, Math.ceil((end - now) / 1000));
}
