/** The client for identity providers (OAuth 2.0, OpenID Connect), on openid-client. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { hash } from 'node:crypto';
import * as client from 'openid-client';
import type { Outbound } from '../outbound/outbound.ts';
import { clientAuthentication } from './client-credentials.ts';
import type { ConnectedApp } from './connected-app.ts';
import type { OwnKeys } from './own-keys.ts';
import { ProviderError } from './provider-error.ts';
import { exchangeError, pushError, userinfoError } from './provider-failures.ts';
import type { JwtRules, ProviderJwts } from './provider-jwt.ts';
import type { ProviderMetadata, ProviderMetadataSource } from './provider-metadata.ts';
import { signingAlgorithms } from './signing-keys.ts';
import { proofFor, proofWith, serverOf } from './token-binding.ts';
import { createTokenEndpoint, type TokenEndpoint, tokenResponse } from './token-endpoint.ts';
import { type CapturedResponse, type Claims, captureTokenResponse, type TokenResponse } from './token-response.ts';

export interface AuthorizationRequest {
  redirectUri: string;
  state: string;
  /** Sent where an ID token is expected. */
  nonce: string;
  codeVerifier: string;
  scopes: readonly string[];
  prompt?: string | undefined;
  /** The requested authentication context (OpenID Connect Core section 3.1.2.1). */
  acrValues?: string | undefined;
  /** The maximum age of the user's sign-in at the provider (OpenID Connect Core section 3.1.2.1). */
  maxAgeSeconds?: number | undefined;
}

/** The values that its response and the code are verified with. */
type CodeRequest = Pick<AuthorizationRequest, 'state' | 'nonce' | 'codeVerifier' | 'scopes'>;

export type AccessToken = Pick<TokenResponse, 'accessToken' | 'dpopKey'>;

export interface ProviderClient extends TokenEndpoint {
  /**
   * The URL of the authorization request. Where `par` requires it, the request is pushed first (RFC 9126).
   * @throws ProviderError
   */
  authorizationUrl(app: ConnectedApp, request: AuthorizationRequest): Promise<string>;
  /**
   * Exchanges the code of a callback (RFC 6749 section 4.1.3) and verifies `iss`, state and ID token.
   * @param callback the callback URL with all its parameters
   * @throws ProviderError
   */
  exchangeCode(app: ConnectedApp, callback: URL, request: CodeRequest): Promise<TokenResponse>;
  /** The claims of the userinfo endpoint; undefined where there is none. @throws ProviderError also for another subject */
  userinfo(app: ConnectedApp, token: AccessToken, subject: string): Promise<Claims | undefined>;
  /** The URL that signs the user out at the provider; undefined where that is not possible. */
  endSessionUrl(
    app: ConnectedApp,
    request: { idToken: string | undefined; returnTo: string },
  ): Promise<string | undefined>;
}

const LIMITS = { deadlineMilliseconds: 15_000, maxBytes: 512 * 1024 };
/** OpenID Connect Core section 5.3.2: no time limits such a response. */
const USERINFO: JwtRules = { requiredClaims: ['sub'], algorithms: 'userinfo_signing_alg_values_supported' };

export function createProviderClient(parts: {
  outbound: Outbound;
  metadata: ProviderMetadataSource;
  jwts: ProviderJwts;
  /** Left out where no app authenticates by private_key_jwt. */
  ownKeys?: Pick<OwnKeys, 'sign'>;
}): ProviderClient {
  const { outbound, metadata, jwts, ownKeys } = parts;
  const raw = new AsyncLocalStorage<CapturedResponse>();
  const configurations = new WeakMap<ProviderMetadata, client.Configuration>();

  const cappedFetch = async (url: string, options: client.CustomFetchOptions, anonymous: boolean) => {
    const body = options.body === undefined || options.body === null ? undefined : String(options.body);
    const { method, headers } = options;
    const response = await outbound.fetch(url, { method, headers, body, anonymous }, LIMITS);
    const captured = raw.getStore();
    return captured && options.method === 'POST' ? captureTokenResponse(response, captured) : response;
  };

  const configurationOf = async (app: ConnectedApp): Promise<client.Configuration> => {
    const provider = await metadata.load(app);
    const existing = configurations.get(provider);
    if (existing) return existing;
    const algorithms = signingAlgorithms(provider.id_token_signing_alg_values_supported);
    const server = { ...provider, id_token_signing_alg_values_supported: algorithms };
    const configuration = new client.Configuration(
      server as client.ServerMetadata,
      app.clientId,
      {},
      clientAuthentication(app, ownKeys),
    );
    const pushUrl = hrefOf(provider.pushed_authorization_request_endpoint);
    configuration[client.customFetch] = async (url, options) => {
      const response = await cappedFetch(url, options, url === pushUrl);
      const isSigned = response.headers.get('content-type')?.split(';')[0] === 'application/jwt';
      return isSigned ? Response.json(await jwts.verify(app, await response.text(), USERINFO)) : response;
    };
    // The address policy allows plain http only for loopback hosts in INTERNAL_HOSTS.
    client.allowInsecureRequests(configuration);
    configurations.set(provider, configuration);
    return configuration;
  };

  return {
    ...createTokenEndpoint({ configurationOf, jwts, raw }),

    async authorizationUrl(app, request) {
      const configuration = await configurationOf(app);
      const parameters: Record<string, string> = {
        ...app.parameters,
        redirect_uri: request.redirectUri,
        scope: request.scopes.join(' '),
        state: request.state,
        code_challenge: codeChallenge(request.codeVerifier),
        code_challenge_method: 'S256',
        ...(request.scopes.includes('openid') ? { nonce: request.nonce } : {}),
        ...(request.prompt ? { prompt: request.prompt } : {}),
        ...(request.acrValues ? { acr_values: request.acrValues } : {}),
        ...(request.maxAgeSeconds === undefined ? {} : { max_age: String(request.maxAgeSeconds) }),
      };
      if (!isPushed(app, serverOf(configuration))) {
        return client.buildAuthorizationUrl(configuration, parameters).href;
      }
      const captured: CapturedResponse = {};
      try {
        return (await raw.run(captured, () => client.buildAuthorizationUrlWithPAR(configuration, parameters))).href;
      } catch (error) {
        throw pushError(error, captured);
      }
    },

    async exchangeCode(app, callback, request) {
      const configuration = await configurationOf(app);
      const captured: CapturedResponse = {};
      try {
        const proof = await proofFor(app, configuration, undefined);
        const checks = {
          expectedState: request.state,
          pkceCodeVerifier: request.codeVerifier,
          ...(request.scopes.includes('openid') ? { expectedNonce: request.nonce, idTokenExpected: true } : {}),
        };
        const response = await raw.run(captured, () =>
          client.authorizationCodeGrant(configuration, callback, checks, undefined, proof.options),
        );
        return await tokenResponse(response, app, { configuration, jwts, dpopKey: proof.key });
      } catch (error) {
        throw exchangeError(error, captured);
      }
    },

    async userinfo(app, { accessToken, dpopKey }, subject) {
      const configuration = await configurationOf(app);
      if (!serverOf(configuration).userinfo_endpoint) return undefined;
      try {
        const { options } = await proofWith(configuration, dpopKey);
        return await client.fetchUserInfo(configuration, accessToken, subject, options);
      } catch (error) {
        throw userinfoError(error);
      }
    },

    async endSessionUrl(app, request) {
      if (!app.providerSignOut) return undefined;
      try {
        const configuration = await configurationOf(app);
        if (!serverOf(configuration).end_session_endpoint) return undefined;
        return client.buildEndSessionUrl(configuration, {
          post_logout_redirect_uri: request.returnTo,
          ...(request.idToken ? { id_token_hint: request.idToken } : {}),
        }).href;
      } catch {
        // The local sign-out must not depend on the provider.
        return undefined;
      }
    },
  };
}

const hrefOf = (url: unknown): string | undefined => (typeof url === 'string' ? URL.parse(url)?.href : undefined);

/** RFC 7636 section 4.2. Synchronous: openid-client uses WebCrypto, whose thread pool takes longer than the hash. */
const codeChallenge = (verifier: string): string => hash('sha256', verifier, 'base64url');

/** `auto`: where the provider requires it (RFC 9126 section 5). @throws ProviderError where the provider has no endpoint for it */
function isPushed(app: ConnectedApp, server: client.ServerMetadata): boolean {
  const isRequiredByProvider = app.par === 'auto' && server.require_pushed_authorization_requests === true;
  if (app.par !== 'required' && !isRequiredByProvider) return false;
  if (!server.pushed_authorization_request_endpoint) throw new ProviderError('misconfigured', 'par_endpoint_missing');
  return true;
}
