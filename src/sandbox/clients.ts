/** Registered apps, and their metadata for oidc-provider. */
import type { AppOverrides } from './app-settings.ts';
import { SCOPES } from './scopes.ts';

export const AUTH_METHODS = ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'] as const;

/** The client with which the platform introspects tokens. */
export const PLATFORM_CLIENT_ID = 'sandbox-platform';
/** The client of the sandbox's own pages. */
export const PAGES_CLIENT_ID = 'sandbox-pages';
/** The client of the sandbox's BIN lookup service. */
export const BIN_CLIENT_ID = 'sandbox-bin-lookup-service';
/** The app of `npm run sandbox`. */
export const DEMO_CLIENT_ID = 'sandbox-demo-app';
/** Seed files cannot use these IDs. */
export const OWN_CLIENT_IDS: readonly string[] = [PLATFORM_CLIENT_ID, PAGES_CLIENT_ID, BIN_CLIENT_ID, DEMO_CLIENT_ID];

export interface SandboxClient {
  clientId: string;
  /** Required unless `tokenEndpointAuthMethod` is `none` or `private_key_jwt`. */
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
  /** URL of the app's public keys, for `private_key_jwt`. */
  jwksUri?: string;
  /** Default: `RS256`. */
  idTokenAlgorithm?: 'RS256' | 'ES256';
  /** Called when a user signs out here (OpenID Connect Back-Channel Logout 1.0). */
  backchannelLogoutUri?: string;
  /** Whether logout tokens name the session (`sid`). Default true. */
  backchannelLogoutSessionRequired?: boolean;
  /** Settings that override those of the sandbox. */
  settings?: AppOverrides;
}

/** Returns client metadata (OpenID Connect Dynamic Client Registration 1.0 section 2). */
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

/** Returns the metadata of the platform's client, which may introspect tokens, but cannot obtain them. */
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

/** Returns the metadata of the client of the sandbox's own pages, which needs sign-ins, but no tokens. */
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
