/** When administrators are reminded to replace a secret: past a set age, and before the provider ends it. Pure. */
import { DAY_MS } from '../time.ts';

const OLD_DAYS = 180;
/** Time enough to make a new one at the provider and to enter it. */
const ENDING_DAYS = 14;

/** What a page says of a secret; days are whole ones. */
export interface SecretAge {
  /** Since it was given, where that is known. */
  days: number | undefined;
  isOld: boolean;
  /** Where its provider ends it within two weeks, or has. */
  ending: 'soon' | 'over' | undefined;
}

/** @param now milliseconds since the epoch */
export function secretAge(
  { setAt, expiresAt = null }: { setAt: string | null; expiresAt?: string | null },
  now: number,
): SecretAge {
  const days = setAt === null ? undefined : Math.floor((now - Date.parse(setAt)) / DAY_MS);
  const left = expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt) - now;
  const ending = left <= 0 ? 'over' : left <= ENDING_DAYS * DAY_MS ? 'soon' : undefined;
  return { days, isOld: (days ?? 0) > OLD_DAYS, ending };
}
