/** Owns the protocol with identity providers (OAuth 2.0, OpenID Connect), spoken through openid-client. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { hash } from 'node:crypto';
import * as client from 'openid-client';
import type { Outbound } from '../outbound/outbound.ts';
import { clientAuthentication } from './client-credentials.ts';
import type { ConnectedApp } from './connected-app.ts';
import { createIssuedTokens, type IssuedTokens, tokenAnswer } from './issued-tokens.ts';
import type { OwnKeys } from './own-keys.ts';
import { ProviderError } from './provider-error.ts';
import { exchangeError, pushError, userinfoError } from './provider-failures.ts';
import type { ProviderMetadata, ProviderMetadataSource } from './provider-metadata.ts';
import { type SigningKeys, signingAlgorithms } from './signing-keys.ts';
import { type Claims, type RawTokenAnswer, readTokenAnswer, type TokenAnswer } from './token-answer.ts';
import { proofFor, proofWith, serverOf } from './token-binding.ts';

export interface AuthorizationRequest {
  redirectUri: string;
  state: string;
  /** Sent where an ID token is expected. */
  nonce: string;
  codeVerifier: string;
  scopes: readonly string[];
  prompt?: string | undefined;
  /** The authentication context that is asked for (OpenID Connect Core section 3.1.2.1). */
  acrValues?: string | undefined;
  /** How long ago the person may have signed in there; an ID token that says otherwise, or nothing, is refused. */
  maxAgeSeconds?: number | undefined;
}

export type AccessToken = Pick<TokenAnswer, 'accessToken' | 'dpopKey'>;

export interface ProviderClient extends IssuedTokens {
  /**
   * Where the browser goes. Where the app's `par` asks for it, the request is pushed first, and the URL only names it (RFC 9126).
   * @throws ProviderError
   */
  authorizationUrl(app: ConnectedApp, request: AuthorizationRequest): Promise<string>;
  /**
   * Exchanges the code of a callback (RFC 6749 section 4.1.3) and verifies `iss`, state, ID token and its signature.
   * @param callback the callback URL with all its parameters
   * @throws ProviderError
   */
  exchangeCode(app: ConnectedApp, callback: URL, request: AuthorizationRequest): Promise<TokenAnswer>;
  /** Claims of the userinfo endpoint, or undefined where the provider has none. Refuses another subject's. @throws ProviderError */
  userinfo(app: ConnectedApp, token: AccessToken, subject: string): Promise<Claims | undefined>;
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
  /** Left out where no app authenticates by private_key_jwt. */
  ownKeys?: Pick<OwnKeys, 'sign'>;
}): ProviderClient {
  const { outbound, metadata, signingKeys, ownKeys } = parts;
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
    const configuration = new client.Configuration(
      server as client.ServerMetadata,
      app.clientId,
      {},
      clientAuthentication(app, ownKeys),
    );
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
    ...createIssuedTokens({ configurationOf, raw }),

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
      const holder: RawTokenAnswer = {};
      try {
        return (await raw.run(holder, () => client.buildAuthorizationUrlWithPAR(configuration, parameters))).href;
      } catch (error) {
        throw pushError(error, holder);
      }
    },

    async exchangeCode(app, callback, request) {
      const configuration = await configurationOf(app);
      const holder: RawTokenAnswer = {};
      try {
        const proof = await proofFor(app, configuration, undefined);
        const checks = {
          expectedState: request.state,
          pkceCodeVerifier: request.codeVerifier,
          ...(request.scopes.includes('openid') ? { expectedNonce: request.nonce, idTokenExpected: true } : {}),
          ...(request.maxAgeSeconds === undefined ? {} : { maxAge: request.maxAgeSeconds }),
        };
        const answer = await raw.run(holder, () =>
          client.authorizationCodeGrant(configuration, callback, checks, undefined, proof.options),
        );
        return withSubject(tokenAnswer(answer, app, { configuration, dpopKey: proof.key }));
      } catch (error) {
        throw exchangeError(error, holder);
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
        // Signing out here must not depend on the provider.
        return undefined;
      }
    },
  };
}

/** RFC 7636 section 4.2; the library asks WebCrypto, whose thread pool takes longer than the hash. */
const codeChallenge = (verifier: string): string => hash('sha256', verifier, 'base64url');

/** `auto`: where the provider takes nothing else (RFC 9126 section 5). @throws ProviderError where it cannot be done */
function isPushed(app: ConnectedApp, server: client.ServerMetadata): boolean {
  const isDemanded = app.par === 'auto' && server.require_pushed_authorization_requests === true;
  if (app.par !== 'required' && !isDemanded) return false;
  if (!server.pushed_authorization_request_endpoint) throw new ProviderError('misconfigured', 'par_endpoint_missing');
  return true;
}

/** The library takes an empty subject, under which everybody would be the same person. */
function withSubject(answer: TokenAnswer): TokenAnswer {
  if (answer.claims?.sub === '') throw new ProviderError('invalid', 'token_answer_invalid');
  return answer;
}
