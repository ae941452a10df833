/** Whether a sign-in is recent enough for the administration (R102). */

export const STEP_UP_SECONDS = 900;
/** How far the provider's clock may be ahead, as for the `iat` of its tokens; a later time is not accepted. */
const MAX_AHEAD_SECONDS = 60;

/**
 * @param authTime the ID token's `auth_time`, in seconds since the epoch
 * @param startedAt when the session began, in milliseconds since the epoch
 */
export function isRecent(authTime: number | undefined, startedAt: number): boolean {
  const age = startedAt / 1000 - (authTime ?? Number.NEGATIVE_INFINITY);
  return age <= STEP_UP_SECONDS && -age <= MAX_AHEAD_SECONDS;
}
