/** Owns user assertions: short-lived JWTs that say who is signed in, for a service to prove to the relay for whom it acts. */
import { randomUUID } from 'node:crypto';
import type { OwnKeys } from '../connected-apps/own-keys.ts';

export interface UserAssertions {
  /** @param audience whom it is for: a service, or the relay itself where left out */
  issue(userId: string, audience?: string): Promise<string>;
  /**
   * The user of an assertion that we signed, that has not ended, and that was made for the relay or for this very service;
   * undefined for any other.
   */
  verify(assertion: string, token: { id: string; name: string }): Promise<string | undefined>;
}

export const ASSERTION_SECONDS = 60;
/** Says what it is (RFC 8725 section 3.11), so that nothing else that we sign ever passes for one. */
const TYPE = 'gatehouse-user+jwt';
/** Many times what we make: longer texts cost nothing here. */
const LONGEST = 2_048;

/** @param parts `publicHref`: issuer, and the audience that stands for the relay */
export function createUserAssertions(parts: {
  ownKeys: OwnKeys;
  publicHref: string;
  clock: () => number;
}): UserAssertions {
  const { ownKeys, publicHref, clock } = parts;
  return {
    issue(userId, audience) {
      const iat = Math.floor(clock() / 1000);
      const times = { iat, exp: iat + ASSERTION_SECONDS };
      const claims = { iss: publicHref, sub: userId, aud: audience ?? publicHref, ...times, jti: randomUUID() };
      return ownKeys.sign(claims, { typ: TYPE });
    },

    async verify(assertion, token) {
      if (assertion.length > LONGEST) return undefined;
      const claims = await ownKeys.verify(assertion, {
        typ: TYPE,
        issuer: publicHref,
        audience: [publicHref, `${publicHref}/relay`, `${publicHref}/relay/token`, token.id, token.name],
        requiredClaims: ['sub', 'iat', 'exp', 'jti'],
      });
      return claims?.sub;
    },
  };
}
