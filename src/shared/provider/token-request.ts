/** Sends a request to the token endpoint, with a DPoP proof if tokens are bound to a key, and verifies the response. */
import * as client from 'openid-client';
import { readApiBaseUrl } from './api-base-url.ts';
import type { ConnectedApp } from './connected-app.ts';
import { type DpopKey, dpopKeyPair, makeDpopKey } from './dpop.ts';
import { isIssuerTemplate } from './issuer.ts';
import { ProviderError } from './provider-error.ts';
import { type ProviderJwts, verifyIdToken } from './provider-jwt.ts';
import type { ProviderMetadata } from './provider-metadata.ts';
import { UNREQUESTED_DPOP } from './token-members.ts';
import type { TokenResponse } from './token-response.ts';

/** An app and its provider, with the configuration of openid-client. */
export interface ConfiguredApp {
  app: ConnectedApp;
  server: ProviderMetadata;
  configuration: client.Configuration;
}

type LibraryResponse = client.TokenEndpointResponse & client.TokenEndpointResponseHelpers;

/**
 * @param parts `dpopKey`: the key that the tokens are already bound to; without it, a new key is created if tokens must
 *   be bound. `send`: makes the token request with openid-client, passing it these options
 * @throws ProviderError, RefusedJwt, or an error of openid-client
 */
export async function requestTokens(
  configuredApp: ConfiguredApp,
  parts: {
    jwts: ProviderJwts;
    dpopKey?: DpopKey | undefined;
    send: (options: client.DPoPOptions) => Promise<LibraryResponse>;
  },
): Promise<TokenResponse> {
  const key = parts.dpopKey ?? (bindsTokens(configuredApp) ? await makeDpopKey() : undefined);
  const response = await parts.send(await dpopOptions(configuredApp, key));
  return tokenResponse(configuredApp, response, { jwts: parts.jwts, key });
}

export async function dpopOptions(
  { configuration }: Pick<ConfiguredApp, 'configuration'>,
  key: DpopKey | undefined,
): Promise<client.DPoPOptions> {
  return key ? { DPoP: client.getDPoPHandle(configuration, await dpopKeyPair(key)) } : {};
}

/**
 * `auto` binds tokens if the provider requires pushed requests and supports DPoP, as in the FAPI 2.0 Security Profile.
 */
function bindsTokens({ app, server }: ConfiguredApp): boolean {
  const algorithms = server.dpop_signing_alg_values_supported;
  const requiresPar = server.require_pushed_authorization_requests === true;
  const supportsDpop = Array.isArray(algorithms) && algorithms.includes('ES256');
  return app.dpop === 'required' || (app.dpop === 'auto' && requiresPar && supportsDpop);
}

async function tokenResponse(
  { app, server }: ConfiguredApp,
  response: LibraryResponse,
  { jwts, key }: { jwts: ProviderJwts; key: DpopKey | undefined },
): Promise<TokenResponse> {
  const isBound = response.token_type === 'dpop';
  if (isBound && !key)
    throw new ProviderError('invalid', 'token_response_invalid', { member: 'token_type', value: UNREQUESTED_DPOP });
  if (app.dpop === 'required' && !isBound) throw new ProviderError('invalid', 'token_not_bound');
  const apiBaseUrl = readApiBaseUrl(app, response);
  // If the provider has no `jwks_uri`, the ID token cannot be verified and is ignored: a connection needs none, and a
  // sign-in fails. With an issuer template it is refused instead, since only the ID token names the tenant.
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
