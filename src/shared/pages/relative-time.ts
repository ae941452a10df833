/** Formats a time relative to now: "3 min ago", "in 12 days". */
import { DAY_MS, HOUR_MS } from '../time.ts';

const MINUTE_MS = 60_000;

/** `from`: the shortest distance in this unit; "in 89 days" is more precise than "in 2 mo". */
const UNITS = [
  { unit: 'year', milliseconds: 365 * DAY_MS, from: 2 * 365 * DAY_MS },
  { unit: 'month', milliseconds: 30 * DAY_MS, from: 100 * DAY_MS },
  { unit: 'day', milliseconds: DAY_MS, from: DAY_MS },
  { unit: 'hour', milliseconds: HOUR_MS, from: HOUR_MS },
  { unit: 'minute', milliseconds: MINUTE_MS, from: MINUTE_MS },
] as const;

/** The formatter is created on first use, since that takes longer than rendering a page. */
let format: Intl.RelativeTimeFormat | undefined;

/** Returns the distance in whole units, rounded to the nearest, since a lifetime of 30 days is just below that at once. */
export function relativeTime(time: number, now: number): string {
  const distance = Math.abs(time - now);
  const match = UNITS.find(({ from }) => distance >= from);
  if (!match) return time > now ? 'in less than 1 min' : 'just now';
  format ??= new Intl.RelativeTimeFormat('en-GB', { style: 'short' });
  const { unit, milliseconds } = match;
  return format.format(Math.round((time - now) / milliseconds), unit);
}
