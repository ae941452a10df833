/** User assertions: short-lived JWTs by which a service proves to the relay which signed-in user it acts for. */
import type { OwnKeys } from '../connected-apps/own-keys.ts';

const LIFETIME_SECONDS = 60;
/** An explicit type (RFC 8725 section 3.11), so that no other JWT that we sign is accepted as an assertion. */
const TYPE = 'gatehouse-user+jwt';

export type UserAssertions = ReturnType<typeof createUserAssertions>;

/** @param parts `publicHref`: the issuer, and the audience of the relay */
export function createUserAssertions({ ownKeys, publicHref }: { ownKeys: OwnKeys; publicHref: string }) {
  return {
    /** @param audience the service that may use it; undefined for the relay itself */
    issue(userId: string, audience = publicHref): Promise<string> {
      const claims = { iss: publicHref, sub: userId, aud: audience };
      return ownKeys.sign(claims, { typ: TYPE, seconds: LIFETIME_SECONDS });
    },

    /**
     * The user's id; undefined unless we signed the assertion, it has not expired, and is for the relay or this
     * token by its id: names are not unique.
     */
    async verify(assertion: string, tokenId: string): Promise<string | undefined> {
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
