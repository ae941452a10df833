/** Owns `POST /oauth/backchannel-logout/{app}`: a provider ends sessions here (OpenID Connect Back-Channel Logout 1.0, R58). */
import type { RequestHandler } from 'express';
import type { AppStore } from '../connected-apps/app-store.ts';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { LOGOUT_TOKEN_SECONDS, type LogoutToken, type LogoutTokens } from '../connected-apps/logout-token.ts';
import { ProviderError } from '../connected-apps/provider-error.ts';
import { AppError } from '../errors.ts';
import { formField } from '../http/body.ts';
import type { UserSessions } from '../http/user-sessions.ts';
import type { Events } from '../observability/events.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { providerSessionIdOf, userIdOf } from './identity.ts';

const USED_SECONDS = LOGOUT_TOKEN_SECONDS.mostAge + 2 * LOGOUT_TOKEN_SECONDS.tolerance;
const NOT_READ = 'Send one logout_token in a form.';
const REPLAYED = 'The logout token was used before.';

/** Without a session or cookie of any kind: the token's signature is what counts. */
export function backchannelLogout(parts: {
  apps: AppStore;
  logoutTokens: LogoutTokens;
  userSessions: UserSessions;
  store: Store;
  events: Events;
}): RequestHandler {
  const { apps, logoutTokens, userSessions, store, events } = parts;

  /** Answers how many sessions were ended, or undefined for a token that was used before. */
  const endOnce = async ({ issuer }: ConnectedApp, token: LogoutToken): Promise<number | undefined> => {
    const { jti, issuedAt, subject, providerSession } = token;
    const used = keys.logoutToken(issuer, jti);
    if (await store.get(used)) return undefined;
    const which =
      providerSession === undefined
        ? { userId: userIdOf(issuer, subject ?? '') }
        : { providerSession: providerSessionIdOf(issuer, providerSession) };
    const sessions = await userSessions.endByProvider(which, issuedAt);
    // Remembered last: where ending failed, the provider may send the same token again.
    const first = await store.write([{ put: used, value: 'used', ifVersion: 0, lifetimeSeconds: USED_SECONDS }]);
    return first ? sessions : undefined;
  };

  return async (req, res) => {
    const app = apps.signInApps().find(({ id }) => id === req.params.app);
    if (!app) throw new AppError('not_found', { detail: 'There is no app with this id that people sign in with.' });
    const origin = { address: req.ip, requestId: req.context.id };
    const refuse = (reason: string) => {
      events.providerSignedOut({ app: app.id, outcome: 'refused', reason, origin });
      res.status(400).json({ error: 'invalid_request', error_description: reason });
    };
    const given = req.is('application/x-www-form-urlencoded') ? formField(req.body, 'logout_token') : undefined;
    if (!given) return refuse(NOT_READ);
    const verified = await logoutTokens.verify(app, given).catch((error: unknown) => {
      throw notVerifiable(error);
    });
    if ('fault' in verified) return refuse(verified.fault);
    const sessions = await endOnce(app, verified.token);
    if (sessions === undefined) return refuse(REPLAYED);
    events.providerSignedOut({ app: app.id, outcome: 'ended', sessions, origin });
    res.status(200).end();
  };
}

/** Nothing is known of the token yet: the provider may send it again. */
function notVerifiable(error: unknown): unknown {
  if (!(error instanceof ProviderError)) return error;
  return new AppError('provider_unavailable', {
    detail: 'The keys that a logout token is verified with cannot be had now.',
    logDetail: `logout token not verifiable: ${error.reason}`,
    retryAfterSeconds: error.facts.retryAfterSeconds ?? 5,
    cause: error,
  });
}
