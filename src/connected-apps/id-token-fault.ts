/** Owns what was wrong with an ID token that was refused: the check that it failed, and how far the clocks are apart. Pure. */

/** In the order in which the checks are made. */
export const ID_TOKEN_CHECKS = ['form', 'times', 'issuer', 'audience', 'nonce', 'signature'] as const;
export type IdTokenCheck = (typeof ID_TOKEN_CHECKS)[number];

export interface IdTokenFault {
  check: IdTokenCheck;
  /** By how much our clock is ahead of the time at which the provider says it issued the token. */
  secondsAhead?: number;
}

const BY_CLAIM: Readonly<Record<string, IdTokenCheck>> = {
  exp: 'times',
  iat: 'times',
  nbf: 'times',
  auth_time: 'times',
  iss: 'issuer',
  aud: 'audience',
  azp: 'audience',
  nonce: 'nonce',
};

/** @param error as the protocol library throws it: told apart by its codes and claims, never by its texts */
export function idTokenFault(error: unknown): IdTokenFault {
  for (const link of chainOf(error)) {
    const { claim, claims, now, key, signature } = link;
    const check = typeof claim === 'string' ? BY_CLAIM[claim] : undefined;
    if (check === 'times') return { check, ...aheadOf(claims, now) };
    if (check) return { check };
    if (signature !== undefined && key !== undefined) return { check: 'signature' };
  }
  return { check: 'form' };
}

/** True where the token says that the person signed in too long ago for what was asked, or says nothing of when. */
export function isSignInTooOld(error: unknown): boolean {
  return chainOf(error).some(({ claim, claims }) => {
    const isMissing = typeof claims === 'object' && claims !== null && !('auth_time' in claims);
    return claim === 'auth_time' || (claim === undefined && isMissing);
  });
}

/** The e-mail address in the claims of a token that was refused, where there is one; nothing vouches for it. */
export function namedEmail(error: unknown): string | undefined {
  for (const { claims } of chainOf(error)) {
    const { email } = (typeof claims === 'object' && claims !== null ? claims : {}) as Record<string, unknown>;
    if (typeof email === 'string' && /^[^\s@]{1,100}@[^\s@]{1,100}$/.test(email)) return email;
  }
  return undefined;
}

function aheadOf(claims: unknown, now: unknown): Pick<IdTokenFault, 'secondsAhead'> {
  const { iat, nbf } = (typeof claims === 'object' ? claims : {}) as Record<string, unknown>;
  const issued = typeof iat === 'number' ? iat : nbf;
  // A token that is good from later on was made by a clock that shows that time.
  const theirs = typeof nbf === 'number' && typeof now === 'number' && nbf > now ? nbf : issued;
  return typeof theirs === 'number' && typeof now === 'number' ? { secondsAhead: Math.round(now - theirs) } : {};
}

function chainOf(error: unknown, depth = 0): Record<string, unknown>[] {
  if (typeof error !== 'object' || error === null || depth > 6) return [];
  return [error as Record<string, unknown>, ...chainOf((error as { cause?: unknown }).cause, depth + 1)];
}
