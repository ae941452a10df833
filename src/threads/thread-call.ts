/** Owns the one way in which a thread is fetched from the platform, for browsers and services alike. */
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { ThreadApp } from '../connected-apps/app-store.ts';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { AppError } from '../errors.ts';
import type { AuthorizedAnswer, AuthorizedFetch } from '../grants/authorized-fetch.ts';
import { TROUBLE_WORDS } from '../grants/grant.ts';
import { OutboundError } from '../outbound/outbound.ts';
import { passedHeaders, rateLimitSeconds } from './upstream-answer.ts';

export interface ThreadRequest {
  userId: string;
  app: ThreadApp;
  /** Aborted when the caller is gone; the call to the platform then ends too. */
  signal: AbortSignal;
}

export interface ThreadAnswer {
  status: number;
  /** Only headers from the allow-list (R76). */
  headers: Record<string, string>;
  /** Ends with an error where the platform exceeds the deadline or the byte cap. */
  body: Readable;
}

export interface ThreadCall {
  /**
   * GETs `{apiBaseUrl}{threadPath}` with the user's access token.
   * @throws AppError `not_connected`, `reconnect_needed`, `provider_unavailable`, `upstream_rate_limited`,
   *   `upstream_error`, `upstream_timeout`
   */
  current(request: ThreadRequest): Promise<ThreadAnswer>;
}

export interface ThreadLimits {
  /** Until the platform's headers are there, refresh included; where it fails, until that is clear. */
  headersMilliseconds: number;
  /** Until the end of the body. */
  totalMilliseconds: number;
  maxBytes: number;
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
}): ThreadCall {
  const { authorizedFetch, publicHref, limits, clock } = parts;

  const send = async ({ userId, app }: ThreadRequest, stop: StopSignal): Promise<AuthorizedAnswer> => {
    const url = app.apiBaseUrl.replace(/\/+$/, '') + app.threadPath;
    try {
      return await authorizedFetch.get({ userId, app, url, headers: REQUEST_HEADERS, signal: stop.signal });
    } catch (error) {
      throw error instanceof AppError ? error : callError(error, stop.tooLate());
    }
  };

  /** The platform's answer, judged; whatever has to be refused is thrown. */
  const begin = async (request: ThreadRequest, stop: StopSignal): Promise<Dispatcher.ResponseData> => {
    const answer = await send(request, stop);
    if (answer.kind !== 'answer') throw grantError(request.app, answer, publicHref);
    const refusal = await refusalOf(answer.response, clock());
    if (!refusal) return answer.response;
    answer.response.body.on('error', () => undefined).destroy();
    throw refusal;
  };

  return {
    async current(request) {
      const stop = stopSignal(request.signal, limits.headersMilliseconds);
      const { statusCode, headers, body } = await begin(request, stop).finally(stop.clearDeadline);
      boundBody(body, limits);
      return { status: statusCode, headers: passedHeaders(headers), body };
    },
  };
}

interface StopSignal {
  signal: AbortSignal;
  /** True once the deadline has passed. */
  tooLate(): boolean;
  clearDeadline(): void;
}

/** Stops when the caller does, or at the deadline. By hand, since `AbortSignal.any` is dear at every call. */
function stopSignal(caller: AbortSignal, milliseconds: number): StopSignal {
  const controller = new AbortController();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    controller.abort();
  }, milliseconds);
  caller.addEventListener('abort', () => controller.abort(), { once: true });
  if (caller.aborted) controller.abort();
  return { signal: controller.signal, tooLate: () => late, clearDeadline: () => clearTimeout(timer) };
}

/** All that the platform ever gets beside the access token: nothing of the caller's request goes there (R75). */
const REQUEST_HEADERS = { accept: 'application/json', 'accept-encoding': 'identity', 'user-agent': 'Gatehouse' };

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
async function refusalOf(response: Dispatcher.ResponseData, now: number): Promise<AppError | undefined> {
  const { statusCode } = response;
  const limitedSeconds = await rateLimitSeconds(response, now);
  if (limitedSeconds !== undefined) {
    const headers = proxyStatus(`received-status=${statusCode}`);
    return new AppError('upstream_rate_limited', { retryAfterSeconds: limitedSeconds, headers });
  }
  const served =
    (statusCode >= 200 && statusCode < 300) || (statusCode >= 400 && statusCode < 500 && statusCode !== 401);
  return served ? undefined : upstreamError('upstream_error', `the platform answered ${statusCode}`);
}

function callError(error: unknown, tooLate: boolean): AppError {
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

/** Destroys the body, and with it the connection, where it is too large or takes too long. */
function boundBody(body: Readable, limits: ThreadLimits): void {
  let bytes = 0;
  const stop = (why: string) => body.destroy(new Error(why));
  const timer = setTimeout(() => stop('The platform took too long to send its answer.'), limits.totalMilliseconds);
  body.once('close', () => clearTimeout(timer));
  body.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > limits.maxBytes) stop('The answer of the platform is too large.');
  });
  // Listening alone would let the data flow before anybody takes it.
  body.pause();
}
