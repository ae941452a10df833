/** Completes the scope of an authorization request. The default is the scope of the app. */
import { decodeJwt } from 'jose';
import { InvalidScope } from 'oidc-provider/lib/helpers/errors.js';
import { type AuthorizationContext, type Client, Provider } from 'oidc-provider/lib/provider.js';
import { SCOPES } from './scopes.ts';

const OFFLINE = 'offline_access';

/**
 * Gives a request without `scope` the scope of its app (RFC 6749 section 3.3). oidc-provider refuses `nonce`,
 * `acr_values` and `max_age` without `openid` before it calls `completeScope`, so this uses the earlier check of the
 * response type.
 */
export function defaultScopes({ Client: { prototype } }: Provider): void {
  const { responseTypeAllowed } = prototype;
  prototype.responseTypeAllowed = function withScope(responseType) {
    const params = Provider.ctx?.oidc?.params;
    if (params) params.scope ??= this.scope;
    return responseTypeAllowed.call(this, responseType);
  };
}

/**
 * Restores `offline_access`, as a check in oidc-provider's `extraParams`: the library has removed it from a request
 * without `prompt=consent`. OpenID Connect Core 1.0 section 11 allows other conditions: here the consent page lists it.
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
