/** Owns the one way in which a thread is fetched from the platform, for browsers and services alike. */
import type { Readable } from 'node:stream';
import type { ThreadApp } from '../connected-apps/app-store.ts';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { AppError } from '../errors.ts';
import type { AuthorizedAnswer, AuthorizedFetch } from '../grants/authorized-fetch.ts';
import { TROUBLE_WORDS } from '../grants/grant.ts';
import type { GrantReading } from '../grants/grant-store.ts';
import { type BodyLimits, boundedBody } from '../outbound/bounded-body.ts';
import { OutboundError } from '../outbound/outbound.ts';
import { createStop, type StopSwitch } from '../outbound/stop.ts';
import { readableOf, type StreamedAnswer, type StreamedBody } from '../outbound/streamed-answer.ts';
import { passedHeaders, type RateLimit, rateLimitOf } from './upstream-answer.ts';

export interface ThreadRequest {
  userId: string;
  app: ThreadApp;
  /** Of the grant, begun with this request. */
  ahead?: GrantReading | undefined;
}

export interface ThreadAnswer {
  status: number;
  /** Only headers from the allow-list (R76). */
  headers: Record<string, string>;
  /** Ends with an error where the platform exceeds the deadline or the byte cap. */
  body: Readable;
}

export interface ThreadStream extends Omit<ThreadAnswer, 'body'> {
  /** Fails where the platform exceeds the deadline or the byte cap. */
  body: StreamedBody;
}

export interface ThreadCall {
  /**
   * GETs `{apiBaseUrl}{threadPath}` with the user's access token.
   * @param request `signal`: aborted when the caller is gone; the call to the platform then ends too
   * @throws AppError `not_connected`, `reconnect_needed`, `provider_unavailable`, `upstream_rate_limited`,
   *   `upstream_error`, `upstream_timeout`, `overloaded`
   */
  current(request: ThreadRequest & { signal: AbortSignal }): Promise<ThreadAnswer>;
  /** The same for an answer that is handed on as it comes. @param stop stopped when the caller is gone */
  stream(request: ThreadRequest, stop: StopSwitch): Promise<ThreadStream>;
}

export interface ThreadLimits extends BodyLimits {
  /** Until the platform's headers are there, refresh included; where it fails, until that is clear. */
  headersMilliseconds: number;
}

export const THREAD_LIMITS: ThreadLimits = {
  headersMilliseconds: 15_000,
  totalMilliseconds: 60_000,
  maxBytes: 32 * 1024 * 1024,
};

export function createThreadCall(parts: {
  authorizedFetch: AuthorizedFetch;
  publicHref: string;
  limits: ThreadLimits;
  clock: () => number;
  /** Hears that the platform refused the call for its rate limit. */
  onLimited?: ((request: ThreadRequest, limit: RateLimit) => void) | undefined;
}): ThreadCall {
  const { authorizedFetch, publicHref, limits, clock, onLimited } = parts;

  /** Whatever of the platform's answers has to be refused is thrown. */
  const assertServed = async (request: ThreadRequest, response: StreamedAnswer): Promise<void> => {
    const refusal = await refusalOf(response, clock(), (limit) => onLimited?.(request, limit));
    if (!refusal) return;
    response.body.destroy(refusal);
    throw refusal;
  };

  // One function of all its steps, since each promise on the way of a relayed call is felt.
  const stream = async (request: ThreadRequest, stop: StopSwitch): Promise<ThreadStream> => {
    const { userId, app, ahead } = request;
    const deadline = setTimeout(stop.stopLate, limits.headersMilliseconds);
    try {
      const url = urlOf(app);
      const answer = await authorizedFetch.get({ userId, app, url, headers: REQUEST_HEADERS, stop, ahead });
      if (answer.kind !== 'answer') throw grantError(app, answer, publicHref);
      const { response } = answer;
      if (response.statusCode >= 300) await assertServed(request, response);
      const { statusCode, headers, body } = response;
      return { status: statusCode, headers: passedHeaders(headers), body: boundedBody(body, limits) };
    } catch (error) {
      throw isOurs(error) ? error : callError(error, stop.tooLate);
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

const urlOf = (app: ThreadApp): string => app.apiBaseUrl.replace(/\/+$/, '') + app.threadPath;

/** All that the platform ever gets beside the access token: nothing of the caller's request goes there (R75). */
const REQUEST_HEADERS = ['accept', 'application/json', 'accept-encoding', 'identity', 'user-agent', 'Gatehouse'];

function grantError(
  app: ConnectedApp,
  answer: Exclude<AuthorizedAnswer, { kind: 'answer' }>,
  publicHref: string,
): AppError {
  const connectUrl = `${publicHref}/connections/${app.id}`;
  const headers = proxyStatus('error=http_request_denied');
  switch (answer.kind) {
    case 'not_connected':
      return new AppError('not_connected', { detail: `Connect ${app.name} first.`, connectUrl, headers });
    case 'reconnect_needed':
      return new AppError('reconnect_needed', {
        detail: `${TROUBLE_WORDS[answer.cause]} Connect ${app.name} again.`,
        logDetail: answer.cause,
        connectUrl,
        headers,
      });
    case 'still_refused':
      return upstreamError('upstream_error', 'the platform refuses a fresh access token');
    case 'unavailable':
      return new AppError('provider_unavailable', {
        detail: 'Your access could not be renewed just now. Nothing is lost: try again shortly.',
        logDetail: answer.cause,
        retryAfterSeconds: answer.retryAfterSeconds,
        headers: proxyStatus('error=destination_unavailable'),
      });
  }
}

/** What the platform's own failures become; its other 4xx answers pass through, bodies included. */
async function refusalOf(
  response: StreamedAnswer,
  now: number,
  onLimited: (limit: RateLimit) => void,
): Promise<AppError | undefined> {
  const { statusCode } = response;
  const limit = await rateLimitOf(response, now);
  if (limit) {
    onLimited(limit);
    const headers = proxyStatus(`received-status=${statusCode}`);
    return new AppError('upstream_rate_limited', { retryAfterSeconds: limit.seconds, headers });
  }
  const served = statusCode >= 400 && statusCode < 500 && statusCode !== 401;
  return served ? undefined : upstreamError('upstream_error', `the platform answered ${statusCode}`);
}

/** Judged already, or a mistake in this program, for which the platform is not to blame. Node's own TypeErrors have a code. */
const isOurs = (error: unknown) => error instanceof AppError || (error instanceof TypeError && !('code' in error));

/** Asked for once more after that, most of the calls that wait now have had their turn. */
const BUSY_RETRY_SECONDS = 2;

function callError(error: unknown, tooLate: boolean): AppError {
  if (error instanceof OutboundError && error.reason === 'busy') {
    const headers = proxyStatus('error=connection_limit_reached');
    return new AppError('overloaded', { logDetail: 'upstream busy', retryAfterSeconds: BUSY_RETRY_SECONDS, headers });
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (tooLate || /TIMEOUT|TIMEDOUT/.test(code)) return upstreamError('upstream_timeout', 'the deadline passed', error);
  return upstreamError(
    'upstream_error',
    error instanceof OutboundError ? error.reason : 'the connection failed',
    error,
  );
}

function upstreamError(code: 'upstream_error' | 'upstream_timeout', logDetail: string, cause?: unknown): AppError {
  const error = code === 'upstream_timeout' ? 'connection_timeout' : 'http_protocol_error';
  return new AppError(code, { logDetail, cause, headers: proxyStatus(`error=${error}`) });
}

/** RFC 9209: says that the refusal is ours and not the platform's. */
function proxyStatus(parameter: string): Record<string, string> {
  return { 'Proxy-Status': `gatehouse; ${parameter}` };
}
