/**
 * Serves `POST /oauth/backchannel-logout/{app}`: a provider ends sessions (OpenID Connect Back-Channel Logout 1.0,
 * R58).
 */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { formField } from '../../shared/http/body.ts';
import { described, json, type Operation } from '../../shared/http/description.ts';
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import { type Budget, COUNTED_BY_HANDLER } from '../../shared/http/route-table.ts';
import type { Events } from '../../shared/observability/events.ts';
import { type ConnectedApp, providerHostOf } from '../../shared/provider/connected-app.ts';
import { ProviderError } from '../../shared/provider/provider-error.ts';
import { originOf } from '../../shared/sessions/actor.ts';
import type { UserSessions } from '../../shared/sessions/user-sessions.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import { LOGOUT_TOKEN_SECONDS, type LogoutToken } from '../connected-apps/logout-token.ts';
import { userIdOf } from '../users/user-id.ts';
import { providerSessionIdOf } from './identity.ts';

const NOT_ONE_TOKEN = 'Send one logout_token in a form.';
const REPLAYED = 'The logout token was used before.';

const errorSchema = z.object({ error: z.literal('invalid_request'), error_description: z.string() });

const BACKCHANNEL_LOGOUT: Operation = {
  summary: 'OpenID Connect Back-Channel Logout 1.0',
  form: z.object({ logout_token: z.string() }),
  ignoresUnknown: 'OpenID Connect Back-Channel Logout 1.0 section 2.5',
  responses: { 200: {}, 400: json(errorSchema) },
};

export interface BackchannelLogout {
  logOut: RequestHandler;
  /**
   * The handler counts refused tokens by address once it has verified them, so that none of them keeps out a valid one
   * of the same provider. Until then a token costs the check of one signature: the provider's keys are read at most
   * every 10 seconds (R24). An accepted token costs what it ends: the provider's sessions.
   */
  budget: Budget;
}

/** Uses no session or cookie: the token's signature authenticates the provider. */
export function backchannelLogout(parts: {
  apps: CurrentApps;
  verifyLogoutToken: ConnectedApps['verifyLogoutToken'];
  userSessions: UserSessions;
  store: Store;
  limits: Pick<RateLimits, 'take'>;
  events: Events;
}): BackchannelLogout {
  const { apps, verifyLogoutToken, userSessions, store, limits, events } = parts;

  /** @returns how many sessions were ended, or undefined for a token that was used before */
  const endOnce = async (token: LogoutToken): Promise<number | undefined> => {
    const { issuer, jti, issuedAt, subject, providerSession } = token;
    const key = keys.logoutToken(issuer, jti);
    if (await store.get(key)) return undefined;
    const target =
      providerSession === undefined
        ? { userId: userIdOf(issuer, subject ?? '') }
        : { providerSession: providerSessionIdOf(issuer, providerSession) };
    const sessions = await userSessions.endByProvider(target, issuedAt);
    // Stored last: if ending sessions fails, the provider may send the same token again.
    const isFirst = await store.write([
      { put: key, value: 'used', ifVersion: 0, lifetimeSeconds: LOGOUT_TOKEN_SECONDS },
    ]);
    return isFirst ? sessions : undefined;
  };

  const logOut = described<RequestHandler>(BACKCHANNEL_LOGOUT, async (req, res) => {
    const app = apps.signInApps().find(({ id }) => id === req.params.app);
    if (!app) throw new AppError('not_found', { detail: 'There is no sign-in app with this id.' });
    const origin = originOf(req);
    /** @throws AppError `rate_limited` beyond the limit: such a refusal is not recorded */
    const refuse = (reason: string) => {
      limits.take('logout-token', req.context.address);
      events.providerSignedOut({ app: app.id, outcome: 'refused', reason, origin });
      res
        .status(400)
        .json({ error: 'invalid_request', error_description: reason } satisfies z.output<typeof errorSchema>);
    };
    const token = req.is('application/x-www-form-urlencoded') ? formField(req.body, 'logout_token') : undefined;
    if (!token) return refuse(NOT_ONE_TOKEN);
    const verified = await verifyLogoutToken(app, token).catch((error: unknown) => {
      throw notVerifiable(app, error);
    });
    if ('fault' in verified) return refuse(verified.fault);
    const sessions = await endOnce(verified.token);
    if (sessions === undefined) return refuse(REPLAYED);
    events.providerSignedOut({ app: app.id, outcome: 'ended', sessions, origin });
    res.status(200).end();
  });
  return { logOut, budget: COUNTED_BY_HANDLER };
}

/** For a token that was neither accepted nor refused: the provider may send it again. */
function notVerifiable(app: ConnectedApp, error: unknown): unknown {
  if (!(error instanceof ProviderError)) return error;
  return new AppError('provider_unavailable', {
    detail: 'The keys that verify the logout token cannot be read now.',
    logDetail: `logout token not verifiable: ${error.reason}`,
    retryAfterSeconds: error.facts.retryAfterSeconds ?? 5,
    call: { app: app.id, host: providerHostOf(app) },
    cause: error,
  });
}
