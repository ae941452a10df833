/** Names, ages and expiry states of the tokens, accounts and secrets that administrators create. */
import { z } from 'zod';
import { DAY_MS } from '../../shared/time.ts';

export const credentialName = z
  .string()
  .trim()
  .min(1, 'Enter a name.')
  .max(100, 'Enter a name of at most 100 characters.');

const OLD_DAYS = 180;
/** Leaves time to create a new secret at the provider and enter it here. */
const EXPIRY_NOTICE_DAYS = 14;

/** Reminders to replace a secret: it is old, or it expires at the provider soon. */
export interface SecretAge {
  /** Whole days since the secret was entered; undefined if that is not known. */
  days: number | undefined;
  isOld: boolean;
  /** `soon` means within two weeks. */
  expiry: 'soon' | 'expired' | undefined;
}

/** Returns the age and the expiry of a secret. @param now milliseconds since the epoch */
export function secretAge(
  { setAt, expiresAt = null }: { setAt: string | null; expiresAt?: string | null },
  now: number,
): SecretAge {
  const days = setAt === null ? undefined : Math.floor((now - Date.parse(setAt)) / DAY_MS);
  const remaining = expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt) - now;
  const expiry = remaining <= 0 ? 'expired' : remaining <= EXPIRY_NOTICE_DAYS * DAY_MS ? 'soon' : undefined;
  return { days, isOld: (days ?? 0) > OLD_DAYS, expiry };
}

export const TOKEN_STATES = ['active', 'expiring', 'expired'] as const;

/** Returns the expiry state of a token. @param now milliseconds since the epoch */
export function stateOf({ expiresAt }: { expiresAt: number }, now: number): (typeof TOKEN_STATES)[number] {
  if (expiresAt <= now) return 'expired';
  return expiresAt - now <= EXPIRY_NOTICE_DAYS * DAY_MS ? 'expiring' : 'active';
}
