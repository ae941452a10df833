/** Creates grants for tests that need many of them. */
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { newConnectionId } from '../../../src/gatehouse/grants/connection-ids.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';

export function grantOf(userId: string, app: ConnectedApp): Grant {
  const now = Date.now();
  return {
    id: newConnectionId(),
    userId,
    appId: app.id,
    registration: registrationOf(app),
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
