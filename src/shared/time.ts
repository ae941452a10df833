/** Units of time, and the form of times in JSON and on pages. Times are milliseconds since the epoch. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;
export const DAY_SECONDS = 86_400;

/** Formats a time as ISO 8601 in UTC. */
export function isoTime(time: number): string;
export function isoTime(time: number | undefined): string | undefined;
export function isoTime(time: number | undefined): string | undefined {
  return time === undefined ? undefined : new Date(time).toISOString();
}

export const isoOrNull = (time: number | undefined): string | null => isoTime(time) ?? null;
