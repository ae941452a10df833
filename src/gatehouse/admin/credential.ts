/** What the tokens, accounts and secrets that administrators make have in common: a name, an age, an expiry and a rotation. */
import { z } from 'zod';
import { wholeNumber } from '../../shared/pages/form.ts';
import { DAY_MS } from '../../shared/time.ts';

/** Of a token or an account. */
export const givenName = z.string().trim().min(1, 'Enter a name.').max(100, 'Enter a name of at most 100 characters.');

const OLD_DAYS = 180;
/** Leaves time to create a new secret at the provider and enter it here. */
const ENDING_DAYS = 14;

/** When administrators are reminded to replace a secret: past a set age, and before the provider ends it. */
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

export const TOKEN_STATES = ['active', 'expiring', 'expired'] as const;

/** @param now milliseconds since the epoch */
export function stateOf({ expiresAt }: { expiresAt: number }, now: number): (typeof TOKEN_STATES)[number] {
  if (expiresAt <= now) return 'expired';
  return expiresAt - now <= ENDING_DAYS * DAY_MS ? 'expiring' : 'active';
}

const MAX_OVERLAP_HOURS = 720;

/** For how long the previous secret stays valid after a rotation. @param otherwise where the request names none */
export const rotationOf = (otherwise: number) =>
  z.strictObject({
    overlapSeconds: z
      .int()
      .min(0)
      .max(MAX_OVERLAP_HOURS * 3_600)
      .default(otherwise)
      .describe('how long the previous secret stays valid'),
  });

const HOURS = `Enter a whole number of hours from 0 to ${MAX_OVERLAP_HOURS}.`;

export const rotationForm = z.object({ overlapHours: wholeNumber(0, MAX_OVERLAP_HOURS, HOURS) });
