/** Fetches a thread from the platform, for browsers and services alike. */
import type { Readable } from 'node:stream';
import { AppError, type FailedCall, type ProblemCode } from '../../shared/errors.ts';
import { type BodyLimits, boundedBody } from '../../shared/outbound/bounded-body.ts';
import { asOutboundError } from '../../shared/outbound/outbound.ts';
import { createStop, type StopSwitch } from '../../shared/outbound/stop.ts';
import { readableOf, type StreamedBody, type StreamedResponse } from '../../shared/outbound/streamed-response.ts';
import { isEncoded } from '../../shared/outbound/whole-response.ts';
import { type ConnectedApp, providerHostOf } from '../../shared/provider/connected-app.ts';
import { type ThreadApp, threadUrlOf } from '../connected-apps/current-apps.ts';
import type { AuthorizedFetch, AuthorizedResponse } from '../grants/authorized-fetch.ts';
import { FAILURE_WORDS, failureText } from '../grants/grant.ts';
import type { GrantReading } from '../grants/grant-store.ts';
import {
  announcesMore,
  demandedScopes,
  isClaimsChallenge,
  passedHeaders,
  type RateLimit,
  rateLimitOf,
} from './upstream-response.ts';

interface ThreadRequest {
  /** Of the access token: the id of a user or of a service account. */
  ownerId: string;
  app: ThreadApp;
  /** A read of the grant that was started early. */
  prefetched?: GrantReading | undefined;
}

export interface ThreadResponse {
  status: number;
  /** Only headers from the allow-list (R76). */
  headers: Record<string, string>;
  /** Ends with an error if the platform exceeds the deadline or the byte limit. */
  body: Readable;
}

interface ThreadStream extends Omit<ThreadResponse, 'body'> {
  /** This call, for an error of its body. */
  call: () => FailedCall;
  /** Fails if the platform exceeds the deadline or the byte limit. */
  body: StreamedBody;
}

export interface ThreadLimits extends BodyLimits {
  /** Until the platform's headers arrive or the call has failed, a token refresh included. */
  headersMilliseconds: number;
}

export const THREAD_LIMITS: ThreadLimits = {
  headersMilliseconds: 15_000,
  totalMilliseconds: 60_000,
  maxBytes: 32 * 1024 * 1024,
};

export interface ThreadCall {
  /**
   * GETs `{apiBaseUrl}{threadPath}` with the owner's access token. Not split into async functions: each further promise costs
   * measurable time in a relayed call.
   * @param stop stopped when the caller disconnects, which also ends the call to the platform
   * @throws AppError `not_connected`, `reconnect_needed`, `scopes_missing`, `provider_unavailable`, `upstream_rate_limited`,
   *   `upstream_error`, `upstream_timeout`, `overloaded`
   */
  stream(request: ThreadRequest, stop: StopSwitch): Promise<ThreadStream>;

  /** The same without a streamed body. @param request `signal`: aborted when the caller disconnects */
  current(request: ThreadRequest & { signal: AbortSignal }): Promise<ThreadResponse>;
}

export function createThreadCall(parts: {
  authorizedFetch: AuthorizedFetch;
  publicHref: string;
  limits: ThreadLimits;
  clock: () => number;
  /** The owners are users, who can allow more. */
  canConsent: boolean;
  /** Called if the platform refuses the call because of its rate limit. */
  onLimited?: ((request: ThreadRequest, limit: RateLimit) => void) | undefined;
}): ThreadCall {
  const { authorizedFetch, publicHref, limits, clock, canConsent, onLimited } = parts;

  const assertPassedOn = async (request: ThreadRequest, response: StreamedResponse): Promise<void> => {
    const { app } = request;
    const demanded = demandedScopes(response).filter((scope) => app.scopes.includes(scope));
    const refusal = isClaimsChallenge(response)
      ? claimsError(app, response.statusCode, publicHref)
      : canConsent && demanded.length > 0
        ? scopesError(app, demanded, response.statusCode, publicHref)
        : await refusalOf(response, clock(), (limit) => onLimited?.(request, limit));
    if (!refusal) return;
    response.body.destroy(refusal);
    throw refusal;
  };

  const stream = async (request: ThreadRequest, stop: StopSwitch): Promise<ThreadStream> => {
    const { ownerId, app, prefetched } = request;
    const deadline = setTimeout(stop.stopLate, limits.headersMilliseconds);
    let apiBaseUrl: string | undefined;
    const urlFor = (granted?: string): string => {
      apiBaseUrl = granted;
      return threadUrlOf(app, granted);
    };
    try {
      const call = { userId: ownerId, app, urlFor, headers: REQUEST_HEADERS, stop, prefetched };
      const result = await authorizedFetch.get(call);
      if (result.kind !== 'response') throw grantError(app, result, publicHref);
      const { response } = result;
      if (response.statusCode >= 300 || isEncoded(response.headers)) await assertPassedOn(request, response);
      const { statusCode, body } = response;
      // Refused now, since a response that has begun can only be cut off.
      if (announcesMore(response, limits.maxBytes)) throw tooLarge(response);
      return {
        status: statusCode,
        headers: passedHeaders(response),
        body: boundedBody(body, limits),
        call: () => platformCall(app, apiBaseUrl),
      };
    } catch (error) {
      const failure = isOurs(error) ? error : callError(error, threadUrlOf(app, apiBaseUrl), stop.tooLate);
      if (failure instanceof AppError) failure.call ??= failedCall(failure, app, apiBaseUrl);
      throw failure;
    } finally {
      clearTimeout(deadline);
    }
  };

  return {
    stream,

    async current({ signal, ...request }) {
      const stop = createStop();
      signal.addEventListener('abort', stop.stop, { once: true });
      if (signal.aborted) stop.stop();
      const { body, ...head } = await stream(request, stop);
      return { ...head, body: readableOf(body) };
    },
  };
}

function platformCall(app: ThreadApp, apiBaseUrl: string | undefined): FailedCall {
  return { app: app.id, host: new URL(threadUrlOf(app, apiBaseUrl)).host };
}

/** The call that ended with this error: that to the platform, or the refresh before it; undefined where neither did. */
function failedCall({ code }: AppError, app: ThreadApp, apiBaseUrl: string | undefined): FailedCall | undefined {
  if (code === 'provider_unavailable' || code === 'reconnect_needed') return { app: app.id, host: providerHostOf(app) };
  return PLATFORM_FAILURES.has(code) ? platformCall(app, apiBaseUrl) : undefined;
}

const PLATFORM_FAILURES: ReadonlySet<ProblemCode> = new Set<ProblemCode>([
  'upstream_error',
  'upstream_timeout',
  'upstream_rate_limited',
  'scopes_missing',
  'overloaded',
]);

/** The only headers sent beside the access token: nothing of the caller's request is forwarded (R75). */
const REQUEST_HEADERS = ['accept', 'application/json', 'accept-encoding', 'identity', 'user-agent', 'Gatehouse'];

function grantError(
  app: ConnectedApp,
  failure: Exclude<AuthorizedResponse, { kind: 'response' }>,
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
    case 'still_refused':
      return upstreamError('upstream_error', 'the platform refuses a fresh access token');
    case 'unavailable': {
      const { cause, inDoubt, retryAfterSeconds } = failure;
      return new AppError('provider_unavailable', {
        ...(inDoubt
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

/** Neither a refresh nor the caller can meet the challenge: the user has to pass the provider's checks again. */
function claimsError({ id, name }: ConnectedApp, status: number, publicHref: string): AppError {
  return new AppError('upstream_error', {
    detail: `${name} requires more of the user’s sign-in than this connection shows (claims challenge). Connect ${name} again; if it still refuses, its administrator has to change what it requires of this app.`,
    logDetail: `the platform answered ${status} with a claims challenge`,
    cause: Object.assign(new Error('claims challenge'), { code: 'insufficient_claims' }),
    connectUrl: `${publicHref}/connections/${id}`,
    headers: proxyStatus(`received-status=${status}`),
  });
}

/** @param scopes of the app: a scope that it does not have, no user could allow */
function scopesError({ id, name }: ConnectedApp, scopes: string[], status: number, publicHref: string): AppError {
  return new AppError('scopes_missing', {
    detail: `${name} requires a permission that this connection does not have: ${scopes.join(' ')}.`,
    logDetail: `the platform answered ${status} with insufficient_scope`,
    connectUrl: `${publicHref}/connections/${id}?${new URLSearchParams({ scope: scopes.join(' ') })}`,
    headers: proxyStatus(`received-status=${status}`),
  });
}

/**
 * The error for a response that is not passed on. 4xx responses other than 401, 429, missing scopes and claims
 * challenges pass through with their bodies.
 */
async function refusalOf(
  response: StreamedResponse,
  now: number,
  onLimited: (limit: RateLimit) => void,
): Promise<AppError | undefined> {
  const { statusCode, headers } = response;
  const limit = await rateLimitOf(response, now);
  if (limit) {
    onLimited(limit);
    return new AppError('upstream_rate_limited', {
      retryAfterSeconds: limit.seconds,
      headers: proxyStatus(`received-status=${statusCode}`),
    });
  }
  if (isEncoded(headers))
    return upstreamError('upstream_error', 'the response is compressed, although no compression was requested');
  const isPassedOn = statusCode >= 400 && statusCode < 500 && statusCode !== 401;
  return isPassedOn ? undefined : upstreamError('upstream_error', `the platform answered ${statusCode}`);
}

function tooLarge({ body }: StreamedResponse): AppError {
  const error = new AppError('upstream_error', {
    logDetail: 'the platform announced a response that is too large',
    headers: proxyStatus('error=http_response_body_size'),
  });
  body.destroy(error);
  return error;
}

/** An AppError, or a bug in this program: a TypeError without the `code` that Node's own carry. */
const isOurs = (error: unknown) => error instanceof AppError || (error instanceof TypeError && !('code' in error));

/** Within this time, most of the calls that are waiting now are made. */
const BUSY_RETRY_SECONDS = 2;

function callError(error: unknown, url: string, tooLate: boolean): AppError {
  const { reason, message } = asOutboundError(error, url, { aborted: tooLate });
  if (reason === 'busy') {
    const headers = proxyStatus('error=connection_limit_reached');
    return new AppError('overloaded', { logDetail: 'upstream busy', retryAfterSeconds: BUSY_RETRY_SECONDS, headers });
  }
  return upstreamError(reason === 'timeout' ? 'upstream_timeout' : 'upstream_error', message, error);
}

function upstreamError(code: 'upstream_error' | 'upstream_timeout', logDetail: string, cause?: unknown): AppError {
  const error = code === 'upstream_timeout' ? 'connection_timeout' : 'http_protocol_error';
  return new AppError(code, { logDetail, cause, headers: proxyStatus(`error=${error}`) });
}

/** RFC 9209: the refusal is ours and not the platform's. */
function proxyStatus(parameter: string): Record<string, string> {
  return { 'Proxy-Status': `gatehouse; ${parameter}` };
}
