/** A request to the token endpoint: sends a DPoP proof where tokens are bound to a key, and verifies the response. */
import * as client from 'openid-client';
import { statedApiBaseUrl } from './api-base-url.ts';
import type { ConnectedApp } from './connected-app.ts';
import { type DpopKey, dpopKeyPair, makeDpopKey } from './dpop.ts';
import { isIssuerTemplate } from './issuer.ts';
import { ProviderError } from './provider-error.ts';
import { type ProviderJwts, verifyIdToken } from './provider-jwt.ts';
import type { ProviderMetadata } from './provider-metadata.ts';
import type { TokenResponse } from './token-response.ts';

/** An app's provider, as openid-client calls it. */
export interface ProviderConnection {
  app: ConnectedApp;
  server: ProviderMetadata;
  configuration: client.Configuration;
}

type LibraryResponse = client.TokenEndpointResponse & client.TokenEndpointResponseHelpers;

/**
 * @param parts `dpopKey`: the one that the tokens are bound to already; otherwise a new one is made where the tokens
 *   are to be bound. `send`: calls the library
 * @throws ProviderError, RefusedJwt, errors of openid-client
 */
export async function requestTokens(
  to: ProviderConnection,
  parts: {
    jwts: ProviderJwts;
    dpopKey?: DpopKey | undefined;
    send: (options: client.DPoPOptions) => Promise<LibraryResponse>;
  },
): Promise<TokenResponse> {
  const key = parts.dpopKey ?? (bindsTokens(to) ? await makeDpopKey() : undefined);
  return tokenResponse(to, await parts.send(await dpopOptions(to, key)), { jwts: parts.jwts, key });
}

export async function dpopOptions(
  { configuration }: Pick<ProviderConnection, 'configuration'>,
  key: DpopKey | undefined,
): Promise<client.DPoPOptions> {
  return key ? { DPoP: client.getDPoPHandle(configuration, await dpopKeyPair(key)) } : {};
}

/** `auto`: where the provider requires pushed requests and supports DPoP, as in the FAPI 2.0 Security Profile. */
function bindsTokens({ app, server }: ProviderConnection): boolean {
  const algorithms = server.dpop_signing_alg_values_supported;
  const isFapi = server.require_pushed_authorization_requests === true && Array.isArray(algorithms);
  return app.dpop === 'required' || (app.dpop === 'auto' && isFapi && algorithms.includes('ES256'));
}

async function tokenResponse(
  { app, server }: ProviderConnection,
  response: LibraryResponse,
  { jwts, key }: { jwts: ProviderJwts; key: DpopKey | undefined },
): Promise<TokenResponse> {
  const isBound = response.token_type === 'dpop';
  if (isBound && !key) throw new ProviderError('invalid', 'token_answer_invalid', { member: 'token_type' });
  if (app.dpop === 'required' && !isBound) throw new ProviderError('invalid', 'token_not_bound');
  const apiBaseUrl = statedApiBaseUrl(app, response);
  // Without keys the ID token cannot be verified, so it is ignored; sign-in apps always have keys. That of a tenant never is.
  const isVerifiable = server.jwks_uri !== undefined || isIssuerTemplate(app.issuer);
  const idToken = isVerifiable ? response.id_token : undefined;
  return {
    accessToken: response.access_token,
    refreshToken: response.refresh_token,
    idToken,
    scopes: response.scope === undefined ? undefined : response.scope.split(' ').filter(Boolean),
    expiresInSeconds: response.expires_in,
    refreshExpiresInSeconds: response.refresh_token_expires_in as number | undefined,
    apiBaseUrl,
    claims: idToken === undefined ? undefined : await verifyIdToken(jwts, app, idToken),
    dpopKey: isBound ? key : undefined,
  };
}
