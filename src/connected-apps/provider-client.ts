/** Owns the protocol with identity providers (OAuth 2.0, OpenID Connect): the only file that speaks through openid-client. */
import { AsyncLocalStorage } from 'node:async_hooks';
import * as client from 'openid-client';
import type { Outbound } from '../outbound/outbound.ts';
import { basicCredentials } from './client-credentials.ts';
import { type ConnectedApp, isOpenIdApp } from './connected-app.ts';
import { ProviderError } from './provider-error.ts';
import type { ProviderMetadata, ProviderMetadataSource } from './provider-metadata.ts';
import { isAppFault, refreshFailure } from './refresh-failure.ts';
import { type SigningKeys, signingAlgorithms } from './signing-keys.ts';
import { type RawTokenAnswer, readTokenAnswer } from './token-answer.ts';

export interface AuthorizationRequest {
  redirectUri: string;
  state: string;
  /** Sent where an ID token is expected. */
  nonce: string;
  codeVerifier: string;
  scopes: readonly string[];
  prompt?: string | undefined;
}

/** What a token endpoint gave (RFC 6749 section 5.1), checked and with hostile numbers taken out. */
export interface TokenAnswer {
  accessToken: string;
  refreshToken: string | undefined;
  idToken: string | undefined;
  /** Undefined: the same as was asked for. */
  scopes: string[] | undefined;
  expiresInSeconds: number | undefined;
  /** Claims of the verified ID token; undefined where none came. */
  claims: Claims | undefined;
}

export type Claims = Record<string, unknown> & { sub: string };

/** How a refresh ended. Only `refused` may end a grant, and only once the vault was read again (R37, R40). */
export type RefreshOutcome =
  | { kind: 'tokens'; answer: TokenAnswer }
  | { kind: 'refused' }
  | { kind: 'app_fault'; reason: string }
  | { kind: 'doubtful'; reason: string }
  | { kind: 'unusable'; reason: string; refreshToken: string | undefined }
  | { kind: 'unavailable'; reason: string; retryAfterSeconds: number | undefined };

/** `unsupported`: the provider has no revocation endpoint. `unconfirmed`: it did not say that it revoked. */
export type RevocationOutcome = 'revoked' | 'unsupported' | 'unconfirmed';

export interface ProviderClient {
  /** @throws ProviderError */
  authorizationUrl(app: ConnectedApp, request: AuthorizationRequest): Promise<string>;
  /**
   * Exchanges the code of a callback (RFC 6749 section 4.1.3) and verifies `iss`, state, ID token and its signature.
   * @param callback the callback URL with all its parameters
   * @throws ProviderError
   */
  exchangeCode(app: ConnectedApp, callback: URL, request: AuthorizationRequest): Promise<TokenAnswer>;
  /**
   * Never throws: a failure is a value.
   * @param keep is given a new refresh token, and waited for, before the rest of the answer is judged; must not reject
   */
  refresh(
    app: ConnectedApp,
    refreshToken: string,
    keep?: (refreshToken: string) => Promise<void>,
  ): Promise<RefreshOutcome>;
  /** Claims of the userinfo endpoint, or undefined where the provider has none. Refuses another subject's. @throws ProviderError */
  userinfo(app: ConnectedApp, accessToken: string, subject: string): Promise<Claims | undefined>;
  /** RFC 7009. Never throws. */
  revoke(app: ConnectedApp, token: string, hint: 'refresh_token' | 'access_token'): Promise<RevocationOutcome>;
  /** Where to send the browser to sign out at the provider, or undefined where that is not possible. */
  endSessionUrl(
    app: ConnectedApp,
    request: { idToken: string | undefined; returnTo: string },
  ): Promise<string | undefined>;
}

const LIMITS = { deadlineMilliseconds: 15_000, maxBytes: 512 * 1024 };

export function createProviderClient(parts: {
  outbound: Outbound;
  metadata: ProviderMetadataSource;
  signingKeys: SigningKeys;
}): ProviderClient {
  const { outbound, metadata, signingKeys } = parts;
  const raw = new AsyncLocalStorage<RawTokenAnswer>();
  const configurations = new WeakMap<ProviderMetadata, client.Configuration>();

  const cappedFetch: client.CustomFetch = async (url, options) => {
    const body = options.body === undefined || options.body === null ? undefined : String(options.body);
    const answer = await outbound.fetch(url, { method: options.method, headers: options.headers, body }, LIMITS);
    const holder = raw.getStore();
    return holder && options.method === 'POST' ? readTokenAnswer(answer, holder) : answer;
  };

  const configurationOf = async (app: ConnectedApp): Promise<client.Configuration> => {
    const known = await metadata.load(app);
    const existing = configurations.get(known);
    if (existing) return existing;
    const server = { ...known, id_token_signing_alg_values_supported: signingAlgorithms(known) };
    const configuration = new client.Configuration(server as client.ServerMetadata, app.clientId, {}, clientAuth(app));
    const keysUrl = known.jwks_uri && new URL(known.jwks_uri).href;
    configuration[client.customFetch] = (url, options) =>
      url === keysUrl ? signingKeys.fetch(url) : cappedFetch(url, options);
    // The address policy has already refused plain http but for named loopback hosts.
    client.allowInsecureRequests(configuration);
    if (known.jwks_uri) client.enableNonRepudiationChecks(configuration);
    configurations.set(known, configuration);
    return configuration;
  };

  return {
    async authorizationUrl(app, request) {
      const configuration = await configurationOf(app);
      const parameters: Record<string, string> = {
        ...app.parameters,
        redirect_uri: request.redirectUri,
        scope: request.scopes.join(' '),
        state: request.state,
        code_challenge: await client.calculatePKCECodeChallenge(request.codeVerifier),
        code_challenge_method: 'S256',
        ...(request.scopes.includes('openid') ? { nonce: request.nonce } : {}),
        ...(request.prompt ? { prompt: request.prompt } : {}),
      };
      return client.buildAuthorizationUrl(configuration, parameters).href;
    },

    async exchangeCode(app, callback, request) {
      const configuration = await configurationOf(app);
      const holder: RawTokenAnswer = {};
      try {
        const answer = await raw.run(holder, () =>
          client.authorizationCodeGrant(configuration, callback, {
            expectedState: request.state,
            pkceCodeVerifier: request.codeVerifier,
            ...(request.scopes.includes('openid') ? { expectedNonce: request.nonce, idTokenExpected: true } : {}),
          }),
        );
        return withSubject(tokenAnswer(answer, app, configuration));
      } catch (error) {
        throw exchangeError(error, holder);
      }
    },

    async refresh(app, refreshToken, keep) {
      const holder: RawTokenAnswer = { keep };
      try {
        const configuration = await configurationOf(app);
        const answer = await raw.run(holder, () => client.refreshTokenGrant(configuration, refreshToken));
        return { kind: 'tokens', answer: tokenAnswer(answer, app, configuration) };
      } catch (error) {
        return refreshFailure(holder, callError(error, 'no_answer'));
      }
    },

    async userinfo(app, accessToken, subject) {
      const configuration = await configurationOf(app);
      if (!configuration.serverMetadata().userinfo_endpoint) return undefined;
      try {
        return await client.fetchUserInfo(configuration, accessToken, subject);
      } catch (error) {
        throw userinfoError(error);
      }
    },

    async revoke(app, token, hint) {
      try {
        const configuration = await configurationOf(app);
        if (!configuration.serverMetadata().revocation_endpoint) return 'unsupported';
        await client.tokenRevocation(configuration, token, { token_type_hint: hint });
        return 'revoked';
      } catch {
        return 'unconfirmed';
      }
    },

    async endSessionUrl(app, request) {
      if (!app.providerSignOut) return undefined;
      try {
        const configuration = await configurationOf(app);
        if (!configuration.serverMetadata().end_session_endpoint) return undefined;
        return client.buildEndSessionUrl(configuration, {
          post_logout_redirect_uri: request.returnTo,
          ...(request.idToken ? { id_token_hint: request.idToken } : {}),
        }).href;
      } catch {
        // Signing out here must not depend on the provider.
        return undefined;
      }
    },
  };
}

/** Client authentication as registered (RFC 6749 section 2.3.1). */
function clientAuth(app: ConnectedApp): client.ClientAuth {
  const secret = app.clientSecret ?? '';
  if (app.tokenEndpointAuthMethod === 'none') return client.None();
  if (app.tokenEndpointAuthMethod === 'client_secret_post') return client.ClientSecretPost(secret);
  return (_server, _client, _body, headers) => headers.set('authorization', basicCredentials(app.clientId, secret));
}

function tokenAnswer(
  answer: Awaited<ReturnType<typeof client.refreshTokenGrant>>,
  app: ConnectedApp,
  configuration: client.Configuration,
): TokenAnswer {
  // Without keys nothing vouches for the ID token, so it is left alone; sign-in apps always have keys.
  const verified = isOpenIdApp(app) && configuration.serverMetadata().jwks_uri !== undefined;
  return {
    accessToken: answer.access_token,
    refreshToken: answer.refresh_token || undefined,
    idToken: verified ? answer.id_token : undefined,
    scopes: answer.scope === undefined ? undefined : answer.scope.split(' ').filter((scope) => scope !== ''),
    expiresInSeconds: answer.expires_in,
    claims: verified ? answer.claims() : undefined,
  };
}

/** The library takes an empty subject, under which everybody would be the same person. */
function withSubject(answer: TokenAnswer): TokenAnswer {
  if (answer.claims?.sub === '') throw new ProviderError('invalid', 'token_answer_invalid');
  return answer;
}

function exchangeError(error: unknown, holder: RawTokenAnswer): ProviderError {
  if (error instanceof client.AuthorizationResponseError) {
    return new ProviderError('refused', 'authorization_refused', { oauthError: error.error, cause: error });
  }
  if (holder.status === undefined) return callError(error, 'authorization_response_invalid');
  // The token answer came and was refused here, or the keys to verify it with did not come.
  if (causeOf(error) instanceof ProviderError) return callError(error, 'token_answer_invalid');
  const facts = { status: holder.status, oauthError: holder.error, cause: error };
  if (holder.status === 429 || holder.status >= 500) {
    return new ProviderError('unavailable', 'token_endpoint_failed', {
      ...facts,
      retryAfterSeconds: holder.retryAfterSeconds,
    });
  }
  if (isAppFault(holder.error)) return new ProviderError('misconfigured', 'client_refused', facts);
  if (holder.status >= 400) return new ProviderError('refused', 'code_refused', facts);
  return new ProviderError('invalid', 'token_answer_invalid', facts);
}

/** What lies behind the library's own wrapping. */
function causeOf(error: unknown): unknown {
  return error instanceof client.ClientError ? (error.cause ?? error) : error;
}

/** An error of a call that has no raw token answer. */
function callError(error: unknown, otherwise: string): ProviderError {
  const failure = ProviderError.from(causeOf(error));
  return failure.reason === 'unreadable_answer' ? new ProviderError('invalid', otherwise, { cause: error }) : failure;
}

function userinfoError(error: unknown): ProviderError {
  const cause = causeOf(error);
  const status = cause instanceof Response ? cause.status : 0;
  return status === 429 || status >= 500
    ? new ProviderError('unavailable', 'userinfo_failed', { status, cause: error })
    : callError(error, 'userinfo_invalid');
}
