/** Whether a sign-in is recent enough for the administration (R102). */

export const STEP_UP_SECONDS = 900;
/** How far the provider's clock may be ahead, as for the `iat` of its tokens; a later time is not accepted. */
const MAX_AHEAD_SECONDS = 60;

/**
 * Compares with the start of the session, not with now.
 * @param authTime the ID token's `auth_time`, in seconds since the epoch
 * @param sessionCreatedAt in milliseconds since the epoch
 */
export function wasRecentAtSignIn(authTime: number | undefined, sessionCreatedAt: number): boolean {
  if (authTime === undefined) return false;
  const age = sessionCreatedAt / 1000 - authTime;
  return age <= STEP_UP_SECONDS && -age <= MAX_AHEAD_SECONDS;
}
