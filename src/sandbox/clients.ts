/** Owns what an app registered at the sandbox is, and how oidc-provider wants to be told about it. */
import { SCOPES } from './scopes.ts';

export interface SandboxClient {
  clientId: string;
  /** Left out only with `tokenEndpointAuthMethod: 'none'`. */
  clientSecret?: string;
  /** Shown on the consent page. */
  name?: string;
  /** Matched exactly. */
  redirectUris: readonly string[];
  postLogoutRedirectUris?: readonly string[];
  /** Default: every scope of the sandbox. */
  scopes?: readonly string[];
  /** Default: `client_secret_basic`. */
  tokenEndpointAuthMethod?: 'client_secret_basic' | 'client_secret_post' | 'none';
  /** Default: `RS256`. */
  idTokenAlgorithm?: 'RS256' | 'ES256';
}

/** The registration as OpenID Connect Dynamic Client Registration 1.0 section 2 names it. */
export function clientMetadata(client: SandboxClient): Record<string, unknown> {
  return {
    client_id: client.clientId,
    ...(client.clientSecret === undefined ? {} : { client_secret: client.clientSecret }),
    client_name: client.name ?? client.clientId,
    redirect_uris: [...client.redirectUris],
    post_logout_redirect_uris: [...(client.postLogoutRedirectUris ?? [])],
    scope: (client.scopes ?? SCOPES).join(' '),
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: client.tokenEndpointAuthMethod ?? 'client_secret_basic',
    id_token_signed_response_alg: client.idTokenAlgorithm ?? 'RS256',
  };
}

/** The platform's own registration: it may authenticate and introspect, and obtain no token at all. */
export function resourceServerMetadata(clientId: string, clientSecret: string): Record<string, unknown> {
  return {
    client_id: clientId,
    client_secret: clientSecret,
    client_name: 'Sandbox platform',
    redirect_uris: [],
    grant_types: [],
    response_types: [],
    token_endpoint_auth_method: 'client_secret_basic',
  };
}
