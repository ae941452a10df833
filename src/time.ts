/** Times are numbers, in milliseconds since the epoch; here are their units, and their form in JSON. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;
export const DAY_SECONDS = 86_400;

/** ISO 8601 in UTC. */
export const isoTime = (time: number): string => new Date(time).toISOString();

export const isoOrNull = (time: number | undefined): string | null => (time === undefined ? null : isoTime(time));
