/** User assertions: short-lived JWTs by which a service proves to the relay which signed-in user it acts for. */
import { randomUUID } from 'node:crypto';
import type { OwnKeys } from '../connected-apps/own-keys.ts';

export interface UserAssertions {
  /** @param audience the service that may use it; undefined for the relay itself */
  issue(userId: string, audience?: string): Promise<string>;
  /**
   * The user's id if we signed the assertion, it has not expired, and its audience is the relay or this service; otherwise
   * undefined.
   */
  verify(assertion: string, token: { id: string; name: string }): Promise<string | undefined>;
}

export const ASSERTION_SECONDS = 60;
/** An explicit type (RFC 8725 section 3.11), so that no other JWT that we sign is accepted as an assertion. */
const TYPE = 'gatehouse-user+jwt';

/** @param parts `publicHref`: the issuer, and the audience of the relay */
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
