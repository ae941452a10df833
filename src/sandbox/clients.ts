/** Owns what an app registered at the sandbox is, and how oidc-provider wants to be told about it. */
import type { AppChoices } from './app-settings.ts';
import { SCOPES } from './scopes.ts';

export const AUTH_METHODS = ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'] as const;

/** By this one the platform introspects. */
export const PLATFORM_CLIENT_ID = 'sandbox-platform';
/** By this one people sign in to the sandbox's own pages. */
export const PAGES_CLIENT_ID = 'sandbox-pages';
/** The app that is there when the sandbox runs alone. */
export const DEMO_CLIENT_ID = 'sandbox-demo-app';
/** Taken, whatever a seed file declares. */
export const OWN_CLIENT_IDS: readonly string[] = [PLATFORM_CLIENT_ID, PAGES_CLIENT_ID, DEMO_CLIENT_ID];

export interface SandboxClient {
  clientId: string;
  /** Left out only with `tokenEndpointAuthMethod: 'none'` and `'private_key_jwt'`. */
  clientSecret?: string;
  /** Shown on the consent page. */
  name?: string;
  /** Matched exactly. */
  redirectUris: readonly string[];
  postLogoutRedirectUris?: readonly string[];
  /** Default: every scope of the sandbox. */
  scopes?: readonly string[];
  /** Default: `client_secret_basic`. */
  tokenEndpointAuthMethod?: (typeof AUTH_METHODS)[number];
  /** Where the app's public keys are, for `private_key_jwt`. */
  jwksUri?: string;
  /** Default: `RS256`. */
  idTokenAlgorithm?: 'RS256' | 'ES256';
  /** Told when a person signs out here (OpenID Connect Back-Channel Logout 1.0). */
  backchannelLogoutUri?: string;
  /** Whether logout tokens name the session (`sid`). Default true. */
  backchannelLogoutSessionRequired?: boolean;
  /** What differs from the settings that the sandbox was started with. */
  settings?: AppChoices;
}

/** The registration as OpenID Connect Dynamic Client Registration 1.0 section 2 names it. */
export function clientMetadata(client: SandboxClient): Record<string, unknown> {
  const { clientSecret, jwksUri, backchannelLogoutUri, settings = {} } = client;
  return {
    client_id: client.clientId,
    ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
    client_name: client.name ?? client.clientId,
    redirect_uris: [...client.redirectUris],
    post_logout_redirect_uris: [...(client.postLogoutRedirectUris ?? [])],
    scope: (client.scopes ?? SCOPES).join(' '),
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: client.tokenEndpointAuthMethod ?? 'client_secret_basic',
    id_token_signed_response_alg: client.idTokenAlgorithm ?? 'RS256',
    ...(jwksUri === undefined ? {} : { jwks_uri: jwksUri }),
    ...(backchannelLogoutUri === undefined
      ? {}
      : {
          backchannel_logout_uri: backchannelLogoutUri,
          backchannel_logout_session_required: client.backchannelLogoutSessionRequired ?? true,
        }),
    require_pushed_authorization_requests: settings.requirePushedRequests ?? false,
    dpop_bound_access_tokens: settings.requireDpop ?? false,
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

/** The registration of the sandbox's own pages: people come back to it from sign-in, and it never asks for a token. */
export function ownPagesMetadata(clientId: string, redirectUri: string): Record<string, unknown> {
  return {
    client_id: clientId,
    client_name: 'the pages of this sandbox',
    redirect_uris: [redirectUri],
    scope: 'openid',
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
}
