/** The doctor's authorization request, and what the response to it says. */
import { randomBytes } from 'node:crypto';
import { domainToUnicode } from 'node:url';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import { type ConnectedApp, callbackUrlOf } from '../../shared/provider/connected-app.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import { describeFailure, ProviderError } from '../../shared/provider/provider-error.ts';
import { fetchDocument } from '../../shared/provider/provider-read.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';

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
    return authorizationFindings(response, { callback, url, scopes: app.scopes });
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
      unknown('callback_registered', 'Not tried: fix the problem below first.'),
      failed('request', detail, { advice, pointer: '#/par' }),
    ];
  }
  if (reason !== 'push_refused')
    return inconclusive(`The authorization endpoint could not be called: ${describeFailure(error)}.`);
  if (facts.oauthError === 'invalid_scope') return [UNKNOWN_CALLBACK, ...errorFindings('invalid_scope')];
  const detail = `The provider refused the pushed authorization request (${describeFailure(error)}).`;
  return refusedAtOnce(detail, callback, { isCertain: facts.oauthError === 'invalid_redirect_uri' });
}

const UNKNOWN_CALLBACK = unknown('callback_registered', 'The provider checked no further than the scopes.');

const inconclusive = (detail: string): Finding[] => [
  unknown('callback_registered', detail),
  unknown('request', 'The provider did not redirect to the callback URL.'),
];

function authorizationFindings(
  response: Response,
  { callback, url: { href }, scopes }: { callback: string; url: URL; scopes: readonly string[] },
): Finding[] {
  const { status } = response;
  const location = response.headers.get('location');
  const isRedirect = status >= 300 && status < 400 && location !== null;
  if (isRedirect && location.startsWith(`${callback}?`)) {
    const { searchParams } = new URL(location);
    return [
      passed('callback_registered', 'The provider redirects to the callback URL.'),
      ...errorFindings(searchParams.get('error') ?? '', refusedScopes(searchParams, scopes)),
    ];
  }
  if (isRedirect) return inconclusive('The provider redirects to a page of its own and reports no error.');
  if (status < 400 || status >= 500)
    return inconclusive(`The provider responded with a page of its own (status ${status}).`);
  if (status === 413 || status === 414 || status === 431) return tooLong(status, href.length);
  const detail = `The provider refused the authorization request with status ${status}.`;
  return refusedAtOnce(detail, callback, { isCertain: false });
}

function tooLong(status: number, length: number): Finding[] {
  return [
    unknown('callback_registered', 'The provider did not read the request.'),
    failed('request', `The URL of the request is too long for the provider (${length} characters, status ${status}).`, {
      advice:
        'Request fewer scopes and extra parameters. If the provider supports pushed requests (PAR), set par to "required".',
      pointer: '#/scopes',
    }),
  ];
}

/** @param certainty `isCertain`: the provider named the callback URL as the cause */
function refusedAtOnce(detail: string, callback: string, { isCertain }: { isCertain: boolean }): Finding[] {
  const { hostname } = new URL(callback);
  const unicodeHost = domainToUnicode(hostname);
  const formAdvice =
    unicodeHost === hostname ? '' : ` Its host name is ${hostname} there, too, and not ${unicodeHost}.`;
  const causes = isCertain ? '' : ' The cause may be the callback URL, the client ID or another parameter.';
  const otherAdvice = isCertain
    ? ''
    : ' If both are right, compare the scopes and the extra parameters with its documentation.';
  const advice = `Enter ${callback} at the provider, character by character, and compare the client ID.${formAdvice}${otherAdvice}`;
  return [
    failed('callback_registered', detail + causes, { advice, pointer: '#/callbackUrls' }),
    unknown('request', 'Not tried: fix the problem above first.'),
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

/** Returns those of the app's scopes that the response names; nothing else of its text is shown. */
function refusedScopes(parameters: URLSearchParams, scopes: readonly string[]): string[] {
  const text = `${parameters.get('scope') ?? ''} ${parameters.get('error_description') ?? ''}`;
  const words = text.split(/[\s"'`,;()[\]]+/).map((word) => word.replace(/(?<![.:])[.:]+$/, ''));
  return scopes.filter((scope) => words.includes(scope));
}

/**
 * @param error the provider's error code in the redirect to our callback URL; its description is not repeated
 * @param refused the scopes that it refuses, if it names them
 */
function errorFindings(error: string, refused: readonly string[] = []): Finding[] {
  if (EXPECTED_ERRORS.includes(error))
    return [passed('request', 'The provider accepts the request and asks the user to sign in.')];
  if (TEMPORARY_ERRORS.includes(error)) return [unknown('request', `The provider responded with ${error}.`)];
  if (error === 'invalid_scope') {
    return [
      failed('scopes', refusal(refused), {
        advice: 'Remove the scope that this registration may not request, or allow it at the provider.',
        pointer: '#/scopes',
      }),
      unknown('request', 'The provider checked no further than the scopes.'),
    ];
  }
  if (error === 'unauthorized_client' || error === 'unsupported_response_type') {
    return [
      failed('request', 'The code flow is not allowed.', {
        advice: 'Allow the authorization code flow for this registration at the provider.',
      }),
    ];
  }
  return [
    failed('request', `The provider refuses the request${/^[a-z_]{1,40}$/.test(error) ? ` with ${error}` : ''}.`, {
      advice:
        'If the provider accepts only pushed requests (PAR) from this registration, set par to "required". Otherwise compare the extra parameters with its documentation.',
      pointer: '#/par',
    }),
  ];
}

function refusal(scopes: readonly string[]): string {
  if (scopes.length === 0) return 'The provider refuses a scope of this app, and does not say which.';
  return `The provider refuses ${scopes.length === 1 ? 'this scope' : 'these scopes'} of the app: ${scopes.join(', ')}.`;
}

export function authorizationRequest(app: ConnectedApp, publicHref: string) {
  return {
    redirectUri: callbackUrlOf(app.id, publicHref),
    state: randomText(),
    nonce: randomText(),
    codeVerifier: randomText(),
    scopes: app.scopes,
  };
}

export const randomText = () => randomBytes(32).toString('base64url');
