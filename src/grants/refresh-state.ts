/** Owns what a grant tells of the refreshes that went before: whether its token was refused, and whether somebody may still hold an answer. Pure. */
import type { Grant } from './grant.ts';
import type { StoredGrant } from './grant-store.ts';

/** A token this new that is refused all the same will not be mended by yet another one. */
const JUST_REFRESHED_MILLISECONDS = 2_000;
/** No holder has an answer for longer in its hands: the provider's time, and as long as the storage is tried. */
const HELD_AT_MOST_MILLISECONDS = 90_000;

/** True where the platform has refused the very token that is held, and that is not brand-new. */
export function isRefused(grant: Grant, rejected: string | undefined, now: number): boolean {
  const age = now - grant.obtainedAt;
  // A clock that was set back must not make every token look new.
  const justRefreshed = age >= 0 && age < JUST_REFRESHED_MILLISECONDS;
  return rejected === grant.accessToken && !justRefreshed;
}

/** True where somebody may have an answer in their hands that they could not write down: it is noted by nobody how their call ended. */
export function mayBeHeld(stored: StoredGrant | undefined, now: number): boolean {
  if (!stored || 'unreadable' in stored) return false;
  const { refresh, trouble } = stored.grant;
  if (!refresh || refresh.received !== undefined) return false;
  const hasEnded = trouble !== undefined && trouble.retryAt > refresh.startedAt;
  return !hasEnded && now - refresh.startedAt < HELD_AT_MOST_MILLISECONDS;
}
