/**
 * Issues and verifies user assertions: short-lived JWTs with which a service proves which signed-in user it acts for.
 */
import type { OwnKeys } from '../connected-apps/own-keys.ts';

const LIFETIME_SECONDS = 60;
/** An explicit type (RFC 8725 section 3.11), so that no other JWT that Gatehouse signs is accepted as an assertion. */
const TYPE = 'gatehouse-user+jwt';

export interface UserAssertions {
  /** Issues an assertion. @param audience the service that may use it; by default the relay itself */
  issue(userId: string, audience?: string): Promise<string>;
  /**
   * Returns the user's id; undefined unless Gatehouse signed the assertion, it has not expired, and its audience is the
   * relay or the id of this token. A token's name is not accepted as audience, because names are not unique.
   */
  verify(assertion: string, tokenId: string): Promise<string | undefined>;
}

/** @param parts `publicHref`: the issuer, and the audience of the relay */
export function createUserAssertions(parts: { ownKeys: OwnKeys; publicHref: string }): UserAssertions {
  const { ownKeys, publicHref } = parts;
  return {
    issue(userId, audience = publicHref) {
      const claims = { iss: publicHref, sub: userId, aud: audience };
      return ownKeys.sign(claims, { typ: TYPE, seconds: LIFETIME_SECONDS });
    },

    async verify(assertion, tokenId) {
      const claims = await ownKeys.verify(assertion, {
        typ: TYPE,
        issuer: publicHref,
        audience: [publicHref, `${publicHref}/relay`, `${publicHref}/relay/token`, tokenId],
        requiredClaims: ['sub', 'iat', 'exp', 'jti'],
      });
      return claims?.sub;
    },
  };
}
