/** A grant for tests that need many of them. */
import type { Grant } from '../../src/grants/grant.ts';

export function grantOf(userId: string, appId: string): Grant {
  const now = Date.now();
  return {
    userId,
    appId,
    accessToken: `at-${userId}`,
    refreshToken: `rt-${userId}`,
    scopes: ['openid', 'platform_read_only'],
    account: { subject: userId },
    obtainedAt: now,
    expiresAt: now + 3_600_000,
    connectedAt: now,
    consentedAt: now,
    failure: undefined,
    refresh: undefined,
  };
}
