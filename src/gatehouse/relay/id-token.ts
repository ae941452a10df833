/**
 * Verifies ID tokens that services present: a sign-in with the token must have begun a session that is still valid
 * (R99).
 */
import { decodeJwt } from 'jose';
import { JWT_TOLERANCE_SECONDS, MAX_IAT_AHEAD_SECONDS } from '../../shared/provider/provider-jwt.ts';
import type { UserSessions } from '../../shared/sessions/user-sessions.ts';
import { userIdOf } from '../users/user-id.ts';

const MAX_CHARACTERS = 16_384;
const MAX_AGE_SECONDS = 600;

export interface IdTokens {
  /** Returns the user's id; undefined if the token does not prove a user now. */
  userOf(token: string): Promise<string | undefined>;
}

export function createIdTokens(parts: {
  userSessions: Pick<UserSessions, 'hasBegunWith'>;
  clock: () => number;
}): IdTokens {
  const { userSessions, clock } = parts;
  return {
    async userOf(token) {
      const { iss, sub, iat, exp } = token.length > MAX_CHARACTERS ? {} : claimsOf(token);
      if (iss === undefined || sub === undefined || iat === undefined || exp === undefined) return undefined;
      const now = clock() / 1000;
      if (now - iat > MAX_AGE_SECONDS || iat - now > MAX_IAT_AHEAD_SECONDS) return undefined;
      if (now - exp > JWT_TOLERANCE_SECONDS) return undefined;
      const userId = userIdOf(iss, sub);
      // The sign-in verified the token, and the session holds the hash of the whole token, so its claims can be
      // trusted.
      return (await userSessions.hasBegunWith(userId, token)) ? userId : undefined;
    },
  };
}

function claimsOf(token: string) {
  try {
    return decodeJwt(token);
  } catch {
    return {};
  }
}
