/** The scope of an authorization request: the app's own scopes by default, and `offline_access` with any `prompt`. */
import { decodeJwt } from 'jose';
import { InvalidScope } from 'oidc-provider/lib/helpers/errors.js';
import type { AuthorizationContext, Client } from 'oidc-provider/lib/provider.js';
import { SCOPES } from './scopes.ts';

const OFFLINE = 'offline_access';

/**
 * A check of oidc-provider's `extraParams`, which may also set defaults (RFC 6749 section 3.3). The library has already
 * dropped `offline_access` if the request has no `prompt=consent`. OpenID Connect Core 1.0 section 11 allows other
 * conditions: here the consent page names it.
 */
export function completeScope({ oidc, query }: AuthorizationContext, _value: unknown, client: Client): void {
  const pushed = oidc.entities.PushedAuthorizationRequest;
  const sent = pushed ? decodeJwt(pushed.request) : oidc.route === 'pushed_authorization_request' ? oidc.body : query;
  const allowed = (client.scope ?? '').split(' ');
  const requested = sent?.scope ? String(sent.scope).split(' ') : allowed;
  if (requested.includes(OFFLINE) && !allowed.includes(OFFLINE)) {
    throw new InvalidScope('requested scope is not allowed', OFFLINE);
  }
  const granted = requested.filter((scope) => scope !== OFFLINE || client.grantTypeAllowed('refresh_token'));
  if (!granted.some((scope) => SCOPES.includes(scope))) {
    throw new InvalidScope('none of the requested scopes can be granted', requested.join(' '));
  }
  oidc.params.scope = granted.join(' ');
}
