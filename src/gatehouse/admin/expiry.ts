/** Whether a token is active, expiring or expired. Pure. */
import { DAY_MS } from '../../shared/time.ts';
import { ENDING_DAYS } from './secret-age.ts';

export const TOKEN_STATES = ['active', 'expiring', 'expired'] as const;

/** @param now milliseconds since the epoch */
export function stateOf({ expiresAt }: { expiresAt: number }, now: number): (typeof TOKEN_STATES)[number] {
  if (expiresAt <= now) return 'expired';
  return expiresAt - now <= ENDING_DAYS * DAY_MS ? 'expiring' : 'active';
}
