/** The errors of calls to the platform, with their details for the caller and for the log. */
import { AppError, type FailedCall, type ProblemCode } from '../../shared/errors.ts';
import { asOutboundError, BUSY_RETRY_SECONDS } from '../../shared/outbound/outbound.ts';
import type { StreamedResponse } from '../../shared/outbound/streamed-body.ts';
import { type ConnectedApp, providerHostOf } from '../../shared/provider/connected-app.ts';
import { platformUrlOf, type ThreadApp } from '../connected-apps/current-apps.ts';
import type { AuthorizedResponse } from '../grants/authorized-fetch.ts';
import { FAILURE_WORDS, failureText } from '../grants/refresh-failure.ts';

export function platformCall(app: ThreadApp, apiBaseUrl: string | undefined): FailedCall {
  return { app: app.id, host: new URL(platformUrlOf(app, apiBaseUrl)).host };
}

/**
 * Returns the call that ended with this error: the call to the platform, or the refresh before it; undefined if neither
 * did.
 */
export function failedCall({ code }: AppError, app: ThreadApp, apiBaseUrl: string | undefined): FailedCall | undefined {
  if (code === 'provider_unavailable' || code === 'reconnect_needed') return { app: app.id, host: providerHostOf(app) };
  return PLATFORM_FAILURES.has(code) ? platformCall(app, apiBaseUrl) : undefined;
}

const PLATFORM_FAILURES: ReadonlySet<ProblemCode> = new Set<ProblemCode>([
  'platform_error',
  'platform_timeout',
  'platform_rate_limited',
  'scopes_missing',
  'step_up_required',
  'overloaded',
]);

export function grantError(
  app: ConnectedApp,
  failure: Exclude<AuthorizedResponse, { kind: 'response' | 'scopes_missing' | 'step_up' }>,
  publicHref: string,
): AppError {
  const connectUrl = `${publicHref}/connections/${app.id}`;
  const headers = proxyStatus('error=http_request_denied');
  switch (failure.kind) {
    case 'not_connected':
      return new AppError('not_connected', { detail: `Connect ${app.name} first.`, connectUrl, headers });
    case 'reconnect_needed':
      return new AppError('reconnect_needed', {
        detail: `${FAILURE_WORDS[failure.cause]} Connect ${app.name} again.`,
        logDetail: failure.cause,
        connectUrl,
        headers,
      });
    case 'unavailable': {
      const { cause, isUnverified, retryAfterSeconds } = failure;
      return new AppError('provider_unavailable', {
        ...(isUnverified
          ? { detail: failureText(cause), connectUrl }
          : { detail: 'Your access could not be renewed just now. Nothing is lost: try again shortly.' }),
        // The provider did respond, so the page must not say otherwise.
        ...(cause !== 'provider_unavailable' && { words: { title: 'Your access could not be renewed' } }),
        logDetail: cause,
        retryAfterSeconds,
        headers: proxyStatus('error=destination_unavailable'),
      });
    }
  }
}

/** Returns the error for a demand that the user meets by signing in again. It is stored: no URL repeats it. */
export function stepUpError({ id, name }: ConnectedApp, status: number, publicHref: string): AppError {
  return new AppError('step_up_required', {
    detail: `${name} requires a stronger or newer sign-in for this. Connect ${name} again to confirm that it is you.`,
    logDetail: `the platform responded with ${status} and demands another sign-in`,
    connectUrl: `${publicHref}/connections/${id}`,
    words: { advice: `Connect ${name} again. You may be asked for a second factor, such as a code.` },
    headers: proxyStatus(`received-status=${status}`),
  });
}

/**
 * Returns the error for a demand that a new sign-in does not meet: its form is wrong, or it is for a service account.
 * @param connectUrl where the user can connect again
 */
export function demandError({ name }: ConnectedApp, status: number, connectUrl: string | undefined): AppError {
  const advice =
    connectUrl === undefined
      ? 'A service account cannot meet that: its administrator must change what it requires of this app.'
      : `Connect ${name} again; if it still refuses, its administrator must change what it requires of this app.`;
  return new AppError('platform_error', {
    detail: `${name} requires more of the user’s sign-in than this connection shows (claims challenge). ${advice}`,
    logDetail: `the platform responded with ${status} and a claims challenge`,
    cause: Object.assign(new Error('claims challenge'), { code: 'insufficient_claims' }),
    connectUrl,
    headers: proxyStatus(`received-status=${status}`),
  });
}

/** Returns the error for missing scopes. @param scopes scopes of the app: a user cannot grant others */
export function scopesError(app: ConnectedApp, scopes: string[], status: number, publicHref: string): AppError {
  return new AppError('scopes_missing', {
    ...consentTo(app, scopes, publicHref),
    logDetail: `the platform responded with ${status} and insufficient_scope`,
    headers: proxyStatus(`received-status=${status}`),
  });
}

/** Returns the error for a call that was not sent, because the connection lacks scopes that its route declares. */
export function lackingScopesError(app: ConnectedApp, scopes: string[], publicHref: string): AppError {
  return new AppError('scopes_missing', {
    ...consentTo(app, scopes, publicHref),
    logDetail: 'the connection lacks scopes that the route declares',
    headers: proxyStatus('error=http_request_denied'),
  });
}

/** The text for a user who can grant the scopes, and where. */
function consentTo({ id, name }: ConnectedApp, scopes: string[], publicHref: string) {
  return {
    detail: `${name} requires a permission that this connection does not have: ${scopes.join(' ')}.`,
    connectUrl: `${publicHref}/connections/${id}?${new URLSearchParams({ scope: scopes.join(' ') })}`,
  };
}

export function tooLarge({ body }: StreamedResponse): AppError {
  const error = new AppError('platform_error', {
    logDetail: 'the platform announced a response that is too large',
    headers: proxyStatus('error=http_response_body_size'),
  });
  body.destroy(error);
  return error;
}

/** True for an AppError, and for a bug of Gatehouse: a TypeError without the `code` that errors of Node have. */
export const isOurs = (error: unknown) =>
  error instanceof AppError || (error instanceof TypeError && !('code' in error));

export function callError(error: unknown, url: string, tooLate: boolean): AppError {
  const { reason, message } = asOutboundError(error, url, { aborted: tooLate });
  if (reason === 'busy') {
    const headers = proxyStatus('error=connection_limit_reached');
    return new AppError('overloaded', {
      logDetail: 'too many calls to the host run or wait',
      retryAfterSeconds: BUSY_RETRY_SECONDS,
      headers,
    });
  }
  return platformError(reason === 'timeout' ? 'platform_timeout' : 'platform_error', message, error);
}

export function platformError(
  code: 'platform_error' | 'platform_timeout',
  logDetail: string,
  cause?: unknown,
): AppError {
  const error = code === 'platform_timeout' ? 'connection_timeout' : 'http_protocol_error';
  return new AppError(code, { logDetail, cause, headers: proxyStatus(`error=${error}`) });
}

/** Returns the error for a call that was not sent because the provider's budget is spent. */
export function budgetError(retryAfterSeconds: number): AppError {
  return new AppError('platform_rate_limited', {
    detail: 'The platform’s rate limit is used up for now. Wait as long as Retry-After says.',
    retryAfterSeconds,
    headers: proxyStatus('error=http_request_denied'),
  });
}

/** Returns the error for a call that the platform refused because of its rate limit. */
export function limitError(status: number, retryAfterSeconds: number): AppError {
  return new AppError('platform_rate_limited', {
    retryAfterSeconds,
    headers: proxyStatus(`received-status=${status}`),
  });
}

/** Returns a header that shows that Gatehouse responded, not the platform (RFC 9209). */
function proxyStatus(parameter: string): Record<string, string> {
  return { 'Proxy-Status': `gatehouse; ${parameter}` };
}
