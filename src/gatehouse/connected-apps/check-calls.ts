/** The doctor's calls to the provider and platform: those of a sign-in, with made-up codes and tokens. */

import { randomBytes } from 'node:crypto';
import { domainToUnicode } from 'node:url';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import { type ConnectedApp, callbackUrlOf, TOKEN_ENDPOINT_AUTH_METHODS } from '../../shared/provider/connected-app.ts';
import { firstIssuer } from '../../shared/provider/issuer.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import { describeFailure, failedCall, ProviderError } from '../../shared/provider/provider-error.ts';
import type { ProviderMetadata } from '../../shared/provider/provider-metadata.ts';
import { fetchDocument } from '../../shared/provider/provider-read.ts';
import { describeReply } from '../../shared/provider/provider-reply.ts';
import { cannotTell, type Finding, fine, problem } from './finding.ts';

export interface CallParts {
  outbound: Outbound;
  provider: ProviderClient;
  /** `PUBLIC_URL`. */
  publicHref: string;
}

/**
 * Checks that the provider accepts our authorization request. With `prompt=none` most providers show no page.
 * @returns findings on the callback URL and the request, and on the scopes if the provider refuses them
 */
export async function checkAuthorization(
  { outbound, provider, publicHref }: CallParts,
  app: ConnectedApp,
): Promise<Finding[]> {
  const callback = callbackUrlOf(app.id, publicHref);
  try {
    // `authorizationUrl` throws if the provider refuses a pushed request.
    const url = new URL(
      await provider.authorizationUrl(app, { ...authorizationRequest(app, publicHref), prompt: 'none' }),
    );
    const response = await fetchDocument(outbound, url.href, app.id, { accept: 'text/html' });
    return authorizationFindings(response, callback);
  } catch (error) {
    return failureFindings(error, callback);
  }
}

/** A pushed request (RFC 9126) is refused at once, without a page of the provider. */
function failureFindings(error: unknown, callback: string): Finding[] {
  const { reason, facts } = ProviderError.from(error);
  if (reason === 'par_endpoint_missing') {
    const detail = 'Requests must be pushed (PAR), but the provider names no endpoint for that.';
    const advice = 'Set par to "auto", or ask the operator of the provider.';
    return [
      cannotTell('callback_registered', 'Not tried: fix the problem below first.'),
      problem('request', detail, { advice, pointer: '#/par' }),
    ];
  }
  if (reason !== 'push_refused')
    return inconclusive(`The authorization endpoint could not be called: ${describeFailure(error)}.`);
  if (facts.oauthError === 'invalid_scope') return [UNKNOWN_CALLBACK, ...errorFindings('invalid_scope')];
  return refusedAtOnce(`The provider refused the pushed authorization request (${describeFailure(error)}).`, callback);
}

const UNKNOWN_CALLBACK = cannotTell('callback_registered', 'The provider checked no further than the scopes.');

const inconclusive = (detail: string): Finding[] => [
  cannotTell('callback_registered', detail),
  cannotTell('request', 'The provider did not redirect to the callback URL.'),
];

function authorizationFindings(response: Response, callback: string): Finding[] {
  const { status } = response;
  const location = response.headers.get('location');
  const isRedirect = status >= 300 && status < 400 && location !== null;
  if (isRedirect && location.startsWith(`${callback}?`)) {
    const error = new URL(location).searchParams.get('error') ?? '';
    return [fine('callback_registered', 'The provider redirects to the callback URL.'), ...errorFindings(error)];
  }
  if (isRedirect) return inconclusive('The provider redirects to a page of its own and reports no error.');
  if (status < 400 || status >= 500)
    return inconclusive(`The provider responded with a page of its own (status ${status}).`);
  return refusedAtOnce(`The provider refused the authorization request with status ${status}.`, callback);
}

function refusedAtOnce(detail: string, callback: string): Finding[] {
  const { hostname } = new URL(callback);
  const unicodeHost = domainToUnicode(hostname);
  const formAdvice =
    unicodeHost === hostname ? '' : ` Its host name is ${hostname} there, too, and not ${unicodeHost}.`;
  const advice = `Enter ${callback} at the provider, character by character, and compare the client ID.${formAdvice}`;
  return [
    problem('callback_registered', detail, { advice, pointer: '#/callbackUrls' }),
    cannotTell('request', 'Not tried: fix the problem above first.'),
  ];
}

/** Responses to `prompt=none` without a session at the provider (OpenID Connect Core section 3.1.2.6). */
const EXPECTED_ERRORS = [
  '',
  'login_required',
  'interaction_required',
  'consent_required',
  'account_selection_required',
];
const TEMPORARY_ERRORS = ['server_error', 'temporarily_unavailable', 'access_denied'];

/** @param error the provider's error code in the redirect to our callback URL; its description is not repeated */
function errorFindings(error: string): Finding[] {
  if (EXPECTED_ERRORS.includes(error))
    return [fine('request', 'The provider accepts the request and asks the user to sign in.')];
  if (TEMPORARY_ERRORS.includes(error)) return [cannotTell('request', `The provider responded with ${error}.`)];
  if (error === 'invalid_scope') {
    return [
      problem('scopes', 'The provider refuses the scopes that this app requests.', {
        advice: 'Remove the scope that this registration may not request, or allow it at the provider.',
        pointer: '#/scopes',
      }),
      cannotTell('request', 'The provider checked no further than the scopes.'),
    ];
  }
  if (error === 'unauthorized_client' || error === 'unsupported_response_type') {
    return [
      problem('request', 'The code flow is not allowed.', {
        advice: 'Allow the authorization code flow for this registration at the provider.',
      }),
    ];
  }
  return [
    problem('request', `The provider refuses the request${/^[a-z_]{1,40}$/.test(error) ? ` with ${error}` : ''}.`, {
      advice:
        'If the provider accepts only pushed requests (PAR) from this registration, set par to "required". Otherwise compare the extra parameters with its documentation.',
      pointer: '#/par',
    }),
  ];
}

/** Sends a made-up code: the token endpoint authenticates the client before it responds with `invalid_grant`. */
export async function checkClientAuthentication(parts: CallParts, app: ConnectedApp): Promise<Finding> {
  const { result, words } = await tryCode(parts, app);
  if (result === 'accepted') {
    return app.tokenEndpointAuthMethod === 'none'
      ? fine('client_authentication', 'The token endpoint knows the client ID; no secret is used.')
      : fine(
          'client_authentication',
          `The token endpoint accepts the client ID and secret by ${app.tokenEndpointAuthMethod}.`,
        );
  }
  if (result === 'unclear')
    return cannotTell('client_authentication', `The token endpoint gave no clear response: ${words}.`);
  const acceptedMethod = await findOtherMethod(parts, app);
  const detail = `The token endpoint does not accept the client ID with this secret (${words}).`;
  return problem('client_authentication', detail, {
    advice: acceptedMethod
      ? `The endpoint accepts ${acceptedMethod}: set tokenEndpointAuthMethod to that.`
      : 'Compare the client ID, enter the secret again, and check whether it has expired at the provider.',
    pointer: acceptedMethod ? '#/tokenEndpointAuthMethod' : '#/clientSecret',
  });
}

/** `words`: the response, for an administrator. */
interface CodeAttempt {
  result: 'accepted' | 'client_refused' | 'unclear';
  words: string;
}

async function tryCode({ provider, publicHref }: CallParts, app: ConnectedApp): Promise<CodeAttempt> {
  const request = authorizationRequest(app, publicHref);
  const callback = new URL(request.redirectUri);
  const iss = firstIssuer(app);
  callback.search = new URLSearchParams({ code: randomText(), state: request.state, iss }).toString();
  try {
    await provider.exchangeCode(app, callback, request);
    return { result: 'unclear', words: 'it accepted a made-up code' };
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    const { status, oauthError } = error.facts;
    const words = describeReply({ status, error: oauthError });
    if (error.reason === 'client_refused' || status === 401) return { result: 'client_refused', words };
    if (error.reason === 'code_refused' && oauthError === 'invalid_grant') return { result: 'accepted', words };
    return { result: 'unclear', words: describeFailure(error) };
  }
}

async function findOtherMethod(parts: CallParts, app: ConnectedApp): Promise<string | undefined> {
  if (!app.clientSecret) return undefined;
  const others = TOKEN_ENDPOINT_AUTH_METHODS.filter(
    (method) => method.startsWith('client_secret_') && method !== app.tokenEndpointAuthMethod,
  );
  for (const tokenEndpointAuthMethod of others) {
    const { result } = await tryCode(parts, { ...app, tokenEndpointAuthMethod });
    if (result === 'accepted') return tokenEndpointAuthMethod;
  }
  return undefined;
}

/** Revokes a made-up token, for which RFC 7009 section 2.2 requires a 200. */
export async function checkRevocation(
  { provider }: CallParts,
  app: ConnectedApp,
  metadata: ProviderMetadata,
): Promise<Finding> {
  if (!metadata.revocation_endpoint) {
    return cannotTell('revocation', 'No revocation endpoint is known: disconnecting deletes the tokens only here.', {
      advice: 'If the provider has one, set endpoints.revocation.',
      pointer: '#/endpoints/revocation',
    });
  }
  const { outcome, reply } = await provider.revoke(app, randomText(), 'refresh_token');
  if (outcome === 'revoked') return fine('revocation', 'The revocation endpoint works.');
  const { status = 500 } = reply ?? {};
  if (status >= 400 && status < 500) {
    return cannotTell(
      'revocation',
      `The revocation endpoint refused a made-up token, as some providers do (${describeReply(reply)}).`,
    );
  }
  return problem('revocation', `The revocation endpoint does not work (${describeReply(reply)}).`, {
    advice: 'Until it does, disconnecting deletes the tokens here, and the revocation is retried for 7 days.',
    pointer: '#/endpoints/revocation',
  });
}

/** Calls the thread path without a token: a working platform refuses the call with 401 or 403. */
export async function checkPlatform({ outbound }: CallParts, app: ConnectedApp): Promise<Finding[]> {
  if (app.apiBaseUrl === undefined) return [];
  if (app.apiBaseUrlFrom)
    return [cannotTell('platform', `Each token response names its host in ${app.apiBaseUrlFrom.member}.`)];
  const url = `${app.apiBaseUrl.replace(/\/$/, '')}${app.threadPath}`;
  try {
    const { status } = await fetchDocument(outbound, url, app.id, { peer: 'platform', statusDecides: true });
    return [platformFinding(status)];
  } catch (error) {
    return [
      problem('platform', `The call to the platform failed: ${describeFailure(error)}.`, {
        advice: failedCall(error)?.advice ?? 'Check the API base URL, and that this server may reach it.',
        pointer: '#/apiBaseUrl',
      }),
    ];
  }
}

function platformFinding(status: number): Finding {
  if (status === 401 || status === 403)
    return fine('platform', `The thread path exists and requires a token (${status}).`);
  if (status === 404) {
    return problem('platform', 'The platform does not have this path (404).', {
      advice: 'Check the API base URL and the thread path.',
      pointer: '#/threadPath',
    });
  }
  return cannotTell('platform', `Without a token the platform responded with status ${status}.`);
}

function authorizationRequest(app: ConnectedApp, publicHref: string) {
  return {
    redirectUri: callbackUrlOf(app.id, publicHref),
    state: randomText(),
    nonce: randomText(),
    codeVerifier: randomText(),
    scopes: app.scopes,
  };
}

const randomText = () => randomBytes(32).toString('base64url');
