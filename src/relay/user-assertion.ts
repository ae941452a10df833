/** User assertions: short-lived JWTs by which a service proves to the relay which signed-in user it acts for. */
import { randomUUID } from 'node:crypto';
import type { OwnKeys } from '../connected-apps/own-keys.ts';

const LIFETIME_SECONDS = 60;
/** An explicit type (RFC 8725 section 3.11), so that no other JWT that we sign is accepted as an assertion. */
const TYPE = 'gatehouse-user+jwt';

export type UserAssertions = ReturnType<typeof createUserAssertions>;

/** @param parts `publicHref`: the issuer, and the audience of the relay */
export function createUserAssertions(parts: { ownKeys: OwnKeys; publicHref: string; clock: () => number }) {
  const { ownKeys, publicHref, clock } = parts;
  return {
    /** @param audience the service that may use it; undefined for the relay itself */
    issue(userId: string, audience = publicHref): Promise<string> {
      const iat = Math.floor(clock() / 1000);
      const claims = { iss: publicHref, sub: userId, aud: audience, iat, exp: iat + LIFETIME_SECONDS };
      return ownKeys.sign({ ...claims, jti: randomUUID() }, { typ: TYPE });
    },

    /** The user's id; undefined unless we signed the assertion, it has not expired, and is for the relay or this service. */
    async verify(assertion: string, token: { id: string; name: string }): Promise<string | undefined> {
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
