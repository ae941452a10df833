/**
 * The client for providers (OAuth 2.0, OpenID Connect), based on openid-client. Its `customFetch` captures responses
 * before the library processes them. oauth4webapi has separate functions for sending a request and for processing its
 * response, but we would have to write the DPoP nonce retry ourselves.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import * as client from 'openid-client';
import { type Outbound, OutboundError } from '../outbound/outbound.ts';
import { readAccountId } from './account-id.ts';
import { type AuthorizationRequest, authorizationParameters, isPushed } from './authorization-request.ts';
import { type AssertionSigner, clientAuthentication } from './client-credentials.ts';
import type { ConnectedApp } from './connected-app.ts';
import { firstIssuer, isIssuerTemplate } from './issuer.ts';
import { isGone, isGoneStatus } from './provider-error.ts';
import { callError, exchangeError, pushError, replyOf, userinfoError } from './provider-failures.ts';
import type { JwtRules, ProviderJwts } from './provider-jwt.ts';
import type { ProviderMetadata, ProviderMetadataSource } from './provider-metadata.ts';
import type { RevocationResult } from './provider-reply.ts';
import { withResources } from './resources.ts';
import { signingAlgorithms } from './signing-keys.ts';
import { readAsTenant } from './tenant-response.ts';
import { type RefreshOutcome, refreshFailure, type TokenRefresh } from './token-refresh.ts';
import { type ConfiguredApp, dpopOptions, requestTokens } from './token-request.ts';
import { type Capture, type Claims, captureResponse, type TokenResponse } from './token-response.ts';

/** The values that verify the callback and the code exchange. */
type CodeRequest = Pick<AuthorizationRequest, 'state' | 'nonce' | 'codeVerifier' | 'scopes'>;

export type AccessToken = Pick<TokenResponse, 'accessToken' | 'dpopKey'>;

export interface ProviderClient {
  /**
   * Reads the provider's metadata unless it is known. Never throws: the call that needs the metadata reports the
   * failure.
   */
  readMetadata(app: ConnectedApp): Promise<void>;
  /** The origin that refreshes go to, by the metadata that was read last; undefined if none was read. Makes no call. */
  tokenOrigin(app: ConnectedApp): string | undefined;
  /**
   * The URL of the authorization request. If the app's `par` setting or the provider requires it, the request is pushed
   * first (RFC 9126).
   * @throws ProviderError
   */
  authorizationUrl(app: ConnectedApp, request: AuthorizationRequest): Promise<string>;
  /**
   * Exchanges the code of a callback (RFC 6749 section 4.1.3) and verifies `iss`, state and ID token.
   * @param callback the callback URL with all its parameters
   * @throws ProviderError
   */
  exchangeCode(app: ConnectedApp, callback: URL, request: CodeRequest): Promise<TokenResponse>;
  /** RFC 6749 section 6. Never throws; failures are returned. */
  refresh(app: ConnectedApp, request: TokenRefresh): Promise<RefreshOutcome>;
  /** RFC 7009. Never throws. */
  revoke(app: ConnectedApp, token: string, hint: 'refresh_token' | 'access_token'): Promise<RevocationResult>;
  /** The claims of userinfo; undefined if there is no endpoint. @throws ProviderError, also for a different subject */
  userinfo(app: ConnectedApp, token: AccessToken, subject: string): Promise<Claims | undefined>;
  /** The account id, read as the app's `account` setting says; undefined without that setting. @throws ProviderError */
  accountId(app: ConnectedApp, token: AccessToken): Promise<string | undefined>;
  /** True if every client gets the same `sub` for an account. False if the provider does not say. */
  hasPublicSubjects(app: ConnectedApp): Promise<boolean>;
  /**
   * The URL that signs the user out at the provider; undefined if that is not possible. The ID token is left out if the
   * URL would be longer than 2,000 characters with it.
   */
  endSessionUrl(
    app: ConnectedApp,
    request: { idToken: string | undefined; returnTo: string },
  ): Promise<string | undefined>;
}

/**
 * Browsers are sent to no longer URL with a parameter that may be left out: servers commonly refuse URLs from 2,048
 * characters on, such as those of Microsoft.
 */
const MAX_URL_LENGTH = 2000;
const LIMITS = { deadlineMilliseconds: 15_000, maxBytes: 512 * 1024 };
/** A 200 confirms a revocation, whatever its body (RFC 7009 section 2.2). */
const REVOCATION_LIMITS = { ...LIMITS, statusDecides: true };
/** A signed userinfo response needs no `iat` or `exp` (OpenID Connect Core section 5.3.2). */
const USERINFO: JwtRules = { requiredClaims: ['sub'], algorithms: 'userinfo_signing_alg_values_supported' };

/** Called with each verified token response. `sentToken` is the refresh token of the request, if it had one. */
export type OnTokens = (app: ConnectedApp, response: TokenResponse, sentToken: string | undefined) => void;

export function createProviderClient(parts: {
  outbound: Outbound;
  metadata: ProviderMetadataSource;
  jwts: ProviderJwts;
  /** Milliseconds since the epoch. */
  clock?: () => number;
  /** Left out if no app authenticates with private_key_jwt. */
  ownKeys?: AssertionSigner | undefined;
  onTokens?: OnTokens | undefined;
}): ProviderClient {
  const { outbound, metadata, jwts, clock = Date.now, ownKeys, onTokens } = parts;
  /** The raw response of the current call. */
  const captures = new AsyncLocalStorage<Capture>();
  /** The inner keys are issuers: that of the provider, or those of the tenants that the app names. */
  const configurations = new WeakMap<ProviderMetadata, Map<string, client.Configuration>>();

  const cappedFetch = async (
    url: string,
    options: client.CustomFetchOptions,
    app: string,
    { isPush, isRevocation }: { isPush: boolean; isRevocation: boolean },
  ) => {
    const body = options.body === undefined || options.body === null ? undefined : String(options.body);
    const { method, headers } = options;
    // A visitor who is not signed in can cause a push (R92).
    const anonymousCall = isPush ? 'pushed request' : undefined;
    // A push and a token request are POSTs. Another request of the library must not change their capture.
    const capture = method === 'POST' ? captures.getStore() : undefined;
    // The library may send the request again with a DPoP nonce. Drop the first status, in case the second request gets
    // no response.
    if (capture) Object.assign(capture, { status: undefined, isSent: true });
    try {
      const limits = isRevocation ? REVOCATION_LIMITS : LIMITS;
      const response = await outbound.fetch(url, { app, method, headers, body, anonymous: anonymousCall }, limits);
      return capture ? await captureResponse(response, capture, clock()) : response;
    } catch (error) {
      if (capture && error instanceof OutboundError) capture.isSent = error.sent;
      throw error;
    }
  };

  /** Marks the metadata stale if an endpoint that it names is gone. */
  const watchEndpoints = async (
    app: ConnectedApp,
    server: ProviderMetadata,
    { url, call }: { url: string; call: () => Promise<Response> },
  ): Promise<Response> => {
    const markStale = () => {
      if (Object.values(server).some((value) => hrefOf(value) === url)) metadata.markStale(app);
    };
    try {
      const response = await call();
      if (isGoneStatus(response.status)) markStale();
      return response;
    } catch (error) {
      if (isGone(error)) markStale();
      throw error;
    }
  };

  const configure = (app: ConnectedApp, server: ProviderMetadata): client.Configuration => {
    const algorithms = signingAlgorithms(server.id_token_signing_alg_values_supported);
    const configuration = new client.Configuration(
      { ...server, id_token_signing_alg_values_supported: algorithms } as client.ServerMetadata,
      app.clientId,
      {},
      clientAuthentication(app, ownKeys),
    );
    const pushUrl = hrefOf(server.pushed_authorization_request_endpoint);
    const revocationUrl = hrefOf(server.revocation_endpoint);
    configuration[client.customFetch] = async (url, options) => {
      const capture = captures.getStore();
      // For another tenant, the library reads the same response again.
      if (capture?.isRereading && capture.response) return capture.response;
      const kind = { isPush: url === pushUrl, isRevocation: url === revocationUrl };
      const call = () => cappedFetch(url, options, app.id, kind);
      const response = await watchEndpoints(app, server, { url, call });
      if (capture && isIssuerTemplate(app.issuer)) capture.response = response.clone();
      const isSigned = response.headers.get('content-type')?.split(';')[0] === 'application/jwt';
      return isSigned ? Response.json(await jwts.verify(app, await response.text(), USERINFO)) : response;
    };
    // Safe, because the address policy already refuses plain http except for loopback hosts in INTERNAL_HOSTS.
    client.allowInsecureRequests(configuration);
    return configuration;
  };

  /** @param issuer the issuer to check `iss` against; one tenant's, if the app has an issuer template */
  const withConfiguration = async (app: ConnectedApp, issuer = firstIssuer(app)): Promise<ConfiguredApp> => {
    const server = await metadata.load(app);
    const byIssuer = configurations.get(server) ?? new Map<string, client.Configuration>();
    configurations.set(server, byIssuer);
    const configuration = byIssuer.get(issuer) ?? configure(app, { ...server, issuer });
    byIssuer.set(issuer, configuration);
    return { app, server, configuration };
  };

  /** May run `call` again for another tenant; see `readAsTenant`. */
  const withCapture = <T>(
    configuredApp: ConfiguredApp,
    capture: Capture,
    call: (configuration: client.Configuration) => Promise<T>,
  ): Promise<T> =>
    readAsTenant({ app: configuredApp.app, jwts, capture }, async (issuer) => {
      const { configuration } =
        issuer === undefined ? configuredApp : await withConfiguration(configuredApp.app, issuer);
      return captures.run(capture, () => call(configuration));
    });

  return {
    async readMetadata(app) {
      await metadata.load(app).catch(() => undefined);
    },

    tokenOrigin: (app) => URL.parse(metadata.peek(app)?.token_endpoint ?? '')?.origin,

    async authorizationUrl(app, request) {
      const { server, configuration } = await withConfiguration(app);
      const parameters = withResources(app, authorizationParameters(app, server, request));
      if (!isPushed(app, server)) {
        const { href } = client.buildAuthorizationUrl(configuration, parameters);
        if (href.length <= MAX_URL_LENGTH || !request.hints) return href;
        const required = withResources(app, authorizationParameters(app, server, { ...request, hints: undefined }));
        return client.buildAuthorizationUrl(configuration, required).href;
      }
      const capture: Capture = { secrets: [app.clientSecret] };
      try {
        const push = () => client.buildAuthorizationUrlWithPAR(configuration, parameters);
        return (await captures.run(capture, push)).href;
      } catch (error) {
        throw pushError(error, capture);
      }
    },

    async exchangeCode(app, callback, request) {
      const configuredApp = await withConfiguration(app, firstIssuer(app, callback.searchParams.get('iss')));
      const secrets = [callback.searchParams.get('code') ?? undefined, request.codeVerifier, app.clientSecret];
      const capture: Capture = { app, secrets };
      const checks = {
        expectedState: request.state,
        pkceCodeVerifier: request.codeVerifier,
        ...(request.scopes.includes('openid') && { expectedNonce: request.nonce, idTokenExpected: true }),
      };
      try {
        const response = await requestTokens(configuredApp, {
          jwts,
          send: (dpop) =>
            withCapture(configuredApp, capture, (configuration) =>
              client.authorizationCodeGrant(
                configuration,
                callback,
                checks,
                withResources(app, app.tokenParameters),
                dpop,
              ),
            ),
        });
        onTokens?.(app, response, undefined);
        return response;
      } catch (error) {
        throw exchangeError(error, capture);
      }
    },

    async refresh(app, { refreshToken, dpopKey, scopes, resource, saveRefreshToken }) {
      const capture: Capture = { app, secrets: [refreshToken, app.clientSecret], saveRefreshToken };
      try {
        const configuredApp = await withConfiguration(app);
        const scope = scopes && { scope: scopes.join(' ') };
        const parameters = withResources(app, { ...app.tokenParameters, ...scope }, resource);
        const response = await requestTokens(configuredApp, {
          jwts,
          dpopKey,
          send: (dpop) =>
            withCapture(configuredApp, capture, (configuration) =>
              client.refreshTokenGrant(configuration, refreshToken, parameters, dpop),
            ),
        });
        onTokens?.(app, response, refreshToken);
        return { kind: 'tokens', response };
      } catch (error) {
        return refreshFailure(capture, callError(error, { defaultReason: 'no_response' }));
      }
    },

    async revoke(app, token, hint) {
      try {
        const { server, configuration } = await withConfiguration(app);
        if (!server.revocation_endpoint) return { outcome: 'unsupported' };
        await client.tokenRevocation(configuration, token, { token_type_hint: hint });
        return { outcome: 'revoked', reply: { status: 200 } };
      } catch (error) {
        return { outcome: 'unconfirmed', reply: replyOf(error, token, clock()) };
      }
    },

    async userinfo(app, { accessToken, dpopKey }, subject) {
      const { server, configuration } = await withConfiguration(app);
      if (!server.userinfo_endpoint) return undefined;
      try {
        const options = await dpopOptions({ configuration }, dpopKey);
        return await client.fetchUserInfo(configuration, accessToken, subject, options);
      } catch (error) {
        throw userinfoError(error, clock());
      }
    },

    accountId: async (app, token) => readAccountId(await withConfiguration(app), token, clock()),

    async hasPublicSubjects(app) {
      const { subject_types_supported: types } = await metadata.load(app);
      return Array.isArray(types) && types.length > 0 && types.every((type) => type === 'public');
    },

    async endSessionUrl(app, request) {
      if (!app.providerSignOut) return undefined;
      try {
        const { end_session_endpoint: endpoint } = await metadata.load(app);
        return endpoint && endSessionUrl(endpoint, app.clientId, request);
      } catch {
        // The local sign-out must not depend on the provider.
        return undefined;
      }
    },
  };
}

/**
 * OpenID Connect RP-Initiated Logout 1.0 section 2. A parameter that the endpoint's own query has is kept: some
 * providers require others than the standard ones there.
 */
function endSessionUrl(
  endpoint: string,
  clientId: string,
  { idToken, returnTo }: { idToken: string | undefined; returnTo: string },
): string {
  const url = new URL(endpoint);
  const add = (name: string, value: string) => url.searchParams.has(name) || url.searchParams.append(name, value);
  add('client_id', clientId);
  add('post_logout_redirect_uri', returnTo);
  const { href } = url;
  if (idToken !== undefined) add('id_token_hint', idToken);
  return url.href.length <= MAX_URL_LENGTH ? url.href : href;
}

const hrefOf = (url: unknown): string | undefined => (typeof url === 'string' ? URL.parse(url)?.href : undefined);
