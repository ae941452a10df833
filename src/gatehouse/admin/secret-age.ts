/** When administrators are reminded to replace a secret: past a set age, and before the provider ends it. Pure. */
import { DAY_MS } from '../../shared/time.ts';

const OLD_DAYS = 180;
/** Leaves time to create a new secret at the provider and enter it here. */
export const ENDING_DAYS = 14;

/** For pages. */
export interface SecretAge {
  /** Whole days since the secret was entered; undefined if that is not known. */
  days: number | undefined;
  isOld: boolean;
  /** `soon`: the provider ends it within two weeks. `over`: it has ended. */
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
