/**
 * The authorization request (RFC 6749 section 4.1.1, OpenID Connect Core section 3.1.2.1): its parameters, and whether
 * it is pushed.
 */
import { hash } from 'node:crypto';
import type { ConnectedApp } from './connected-app.ts';
import { ProviderError } from './provider-error.ts';
import type { ProviderMetadata } from './provider-metadata.ts';

export interface AuthorizationRequest {
  redirectUri: string;
  state: string;
  /** Sent if an ID token is expected. */
  nonce: string;
  codeVerifier: string;
  scopes: readonly string[];
  /** Space-separated values. */
  prompt?: string | undefined;
  /** The requested authentication context. */
  acrValues?: string | undefined;
  /** The maximum age of the user's sign-in at the provider. */
  maxAgeSeconds?: number | undefined;
  /** The requested claims, as JSON (OpenID Connect Core section 5.5). */
  claims?: string | undefined;
  /** The account to preselect, and the languages of the provider's pages. */
  hints?: Partial<Record<'login_hint' | 'ui_locales', string>> | undefined;
}

export function authorizationParameters(
  app: ConnectedApp,
  server: ProviderMetadata,
  request: AuthorizationRequest,
): Record<string, string> {
  return {
    ...app.parameters,
    ...request.hints,
    redirect_uri: request.redirectUri,
    scope: request.scopes.join(' '),
    state: request.state,
    code_challenge: codeChallenge(request.codeVerifier),
    code_challenge_method: 'S256',
    ...(request.scopes.includes('openid') && { nonce: request.nonce }),
    ...(request.prompt && { prompt: supportedPrompt(request.prompt, server) }),
    ...(request.acrValues && { acr_values: request.acrValues }),
    ...(request.maxAgeSeconds !== undefined && { max_age: String(request.maxAgeSeconds) }),
    ...(request.claims && { claims: request.claims }),
  };
}

/** RFC 7636 section 4.2. Synchronous: openid-client uses WebCrypto, whose thread pool takes longer than the hash. */
const codeChallenge = (verifier: string): string => hash('sha256', verifier, 'base64url');

/**
 * Replaces `select_account` with `login` if the provider lists the values that it supports without `select_account`.
 */
function supportedPrompt(prompt: string, { prompt_values_supported: supported }: ProviderMetadata): string {
  if (!Array.isArray(supported) || supported.includes('select_account')) return prompt;
  const values = prompt.split(' ').map((value) => (value === 'select_account' ? 'login' : value));
  return [...new Set(values)].join(' ');
}

/**
 * `auto` pushes if the provider requires it (RFC 9126 section 5). @throws ProviderError if there is no endpoint for it
 */
export function isPushed(app: ConnectedApp, server: ProviderMetadata): boolean {
  const isRequiredByProvider = app.par === 'auto' && server.require_pushed_authorization_requests === true;
  if (app.par !== 'required' && !isRequiredByProvider) return false;
  if (!server.pushed_authorization_request_endpoint) throw new ProviderError('misconfigured', 'par_endpoint_missing');
  return true;
}
