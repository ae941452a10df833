/** Calls the platform with a user's access token, for browsers and services, within the provider's budget. */
import type { Readable } from 'node:stream';
import { AppError, type FailedCall } from '../../shared/errors.ts';
import { type BodyLimits, boundedBody } from '../../shared/outbound/bounded-body.ts';
import { createStop, type StopSwitch } from '../../shared/outbound/stop.ts';
import { readableOf, type StreamedBody, type StreamedResponse } from '../../shared/outbound/streamed-body.ts';
import { readSignInDemand } from '../../shared/provider/sign-in-demand.ts';
import { platformUrlOf, type ThreadApp } from '../connected-apps/current-apps.ts';
import type { AuthorizedCall, AuthorizedFetch, AuthorizedRequest } from '../grants/authorized-fetch.ts';
import {
  budgetError,
  callError,
  demandError,
  failedCall,
  grantError,
  isOurs,
  lackingScopesError,
  limitError,
  platformCall,
  platformError,
  scopesError,
  stepUpError,
  tooLarge,
} from './call-errors.ts';
import { announcesMore, demandedScopes, linkOf, passedHeaders, rateLimitOf } from './platform-response.ts';
import type { BudgetedCall, Caller, ProviderBudget } from './provider-budget.ts';

/** A call to a platform: that of the current thread, or one that a declared route allows. */
export interface PlatformCall extends AuthorizedCall {
  /** True if the platform may respond with 304, because the call depends on a validator. */
  isConditional?: boolean;
  /** Returns the `Link` header to pass on. @param apiUrl the URL below which the platform is called */
  rewriteLink?: (link: string, apiUrl: string) => string | undefined;
}

/** The only headers besides the access token: no header of the caller's request is forwarded (R75). */
const THREAD_HEADERS = ['accept', 'application/json', 'accept-encoding', 'identity', 'user-agent', 'Gatehouse'];

/** Returns the call of the current thread. */
export function threadCall({ threadPath }: ThreadApp): PlatformCall {
  return { method: 'GET', path: threadPath, headers: THREAD_HEADERS, neededScopes: [] };
}

interface PlatformRequest extends Pick<AuthorizedRequest, 'ownerId' | 'prefetched' | 'relayTokenId'> {
  app: ThreadApp;
  call: PlatformCall;
}

export interface PlatformResponse {
  status: number;
  /** Only headers from the allow-list (R76). */
  headers: Record<string, string>;
  /** Ends with an error if the platform exceeds the deadline or the byte limit. */
  body: Readable;
}

interface PlatformStream extends Omit<PlatformResponse, 'body'> {
  /** The call to name in an error of the body. */
  call: () => FailedCall;
  /** Fails if the platform exceeds the deadline or the byte limit. */
  body: StreamedBody;
}

export interface CallLimits extends BodyLimits {
  /** Until the platform's headers arrive or the call fails, including a token refresh. */
  headersMilliseconds: number;
}

export const CALL_LIMITS: CallLimits = {
  headersMilliseconds: 15_000,
  totalMilliseconds: 60_000,
  maxBytes: 32 * 1024 * 1024,
};

export interface PlatformCalls {
  /**
   * Sends a request to a path below `apiBaseUrl` with the owner's access token, for a response that is passed on as it
   * arrives.
   * @param stop stopped when the caller disconnects, which also ends the call to the platform
   * @throws AppError `not_connected`, `reconnect_needed`, `scopes_missing`, `step_up_required`,
   *   `provider_unavailable`, `platform_rate_limited`, `platform_error`, `platform_timeout`, `overloaded`
   */
  stream(request: PlatformRequest, stop: StopSwitch): Promise<PlatformStream>;

  /**
   * Like `stream`, for a caller in Gatehouse, which reads the body itself.
   * @param request `signal`: aborted when the result is no longer needed
   */
  read(request: PlatformRequest & { signal: AbortSignal }): Promise<PlatformResponse>;
}

export function createPlatformCalls(parts: {
  authorizedFetch: AuthorizedFetch;
  /** Charged before each request to the platform, and updated by each response. */
  budget: Pick<ProviderBudget, 'charge' | 'update' | 'refused'>;
  caller: Caller;
  publicHref: string;
  limits: CallLimits;
  clock: () => number;
  /** True if the owners are users, who can grant more scopes. */
  canConsent: boolean;
}): PlatformCalls {
  const { authorizedFetch, budget, caller, publicHref, limits, clock, canConsent } = parts;

  /** @throws AppError `platform_rate_limited` once the budget is spent; then nothing is sent */
  const chargeOrThrow = (budgetedCall: BudgetedCall): Promise<void> | undefined => {
    const wait = budget.charge(budgetedCall);
    if (wait instanceof Promise) return wait.then(assertNoWait);
    assertNoWait(wait);
    return undefined;
  };

  /**
   * Returns the error for a response that is not passed on; undefined if it is. 4xx responses other than 401, 429,
   * missing scopes and demands on the sign-in pass through with their bodies, and so does 304 if the caller sent a
   * validator.
   */
  const refusalOf = async (
    { app, call }: PlatformRequest,
    budgetedCall: BudgetedCall,
    response: StreamedResponse,
  ): Promise<AppError | undefined> => {
    const { statusCode } = response;
    if (statusCode === 304 && call.isConditional) return undefined;
    if (readSignInDemand(response)) {
      return demandError(app, statusCode, canConsent ? `${publicHref}/connections/${app.id}` : undefined);
    }
    const demanded = demandedScopes(response).filter((scope) => app.scopes.includes(scope));
    if (canConsent && demanded.length > 0) return scopesError(app, demanded, statusCode, publicHref);
    const limit = await rateLimitOf(response, clock());
    if (limit) {
      budget.refused(budgetedCall, limit.seconds, limit.isStated);
      return limitError(statusCode, limit.seconds);
    }
    const isPassedOn = statusCode >= 400 && statusCode < 500 && statusCode !== 401;
    return isPassedOn ? undefined : platformError('platform_error', `the platform responded with ${statusCode}`);
  };

  const assertPassedOn = async (
    request: PlatformRequest,
    budgetedCall: BudgetedCall,
    response: StreamedResponse,
  ): Promise<void> => {
    const refusal = await refusalOf(request, budgetedCall, response);
    if (!refusal) return;
    response.body.destroy(refusal);
    throw refusal;
  };

  // Not split into async functions: each further promise costs measurable time in a relayed call.
  const stream = async (request: PlatformRequest, stop: StopSwitch): Promise<PlatformStream> => {
    const { ownerId, app, relayTokenId } = request;
    const deadline = setTimeout(stop.stopLate, limits.headersMilliseconds);
    let apiBaseUrl: string | undefined;
    const baseUrlFor = (granted?: string): string => {
      apiBaseUrl = granted;
      return platformUrlOf(app, granted);
    };
    const budgetedCall: BudgetedCall = { app, ownerId, caller, relayTokenId };
    const beforeSending = () => chargeOrThrow(budgetedCall);
    try {
      const result = await authorizedFetch.send({ ...request, baseUrlFor, stop, beforeSending });
      if (result.kind === 'scopes_missing') throw lackingScopesError(app, result.scopes, publicHref);
      if (result.kind === 'step_up') {
        budget.update(budgetedCall, result.headers);
        throw stepUpError(app, result.statusCode, publicHref);
      }
      if (result.kind !== 'response') throw grantError(app, result, publicHref);
      const { response } = result;
      budget.update(budgetedCall, response.headers);
      if (response.statusCode >= 300) await assertPassedOn(request, budgetedCall, response);
      const { statusCode, body } = response;
      // Refused before the response to the caller begins: after that, it could only be cut off.
      if (announcesMore(response, limits.maxBytes)) throw tooLarge(response);
      return {
        status: statusCode,
        headers: headersFor(request, response, apiBaseUrl),
        body: boundedBody(body, limits),
        call: () => platformCall(app, apiBaseUrl),
      };
    } catch (error) {
      const failure = isOurs(error) ? error : callError(error, platformUrlOf(app, apiBaseUrl), stop.tooLate);
      if (failure instanceof AppError) failure.call ??= failedCall(failure, app, apiBaseUrl);
      throw failure;
    } finally {
      clearTimeout(deadline);
    }
  };

  return {
    stream,

    async read({ signal, ...request }) {
      const stop = createStop();
      signal.addEventListener('abort', stop.stop, { once: true });
      if (signal.aborted) stop.stop();
      const { body, ...head } = await stream(request, stop);
      return { ...head, body: readableOf(body) };
    },
  };
}

/** Returns the headers to pass on. */
function headersFor(
  { app, call }: PlatformRequest,
  response: StreamedResponse,
  apiBaseUrl: string | undefined,
): Record<string, string> {
  const headers = passedHeaders(response);
  const link = linkOf(response);
  const rewrittenLink = link && call.rewriteLink?.(link, platformUrlOf(app, apiBaseUrl));
  return rewrittenLink ? { ...headers, link: rewrittenLink } : headers;
}

function assertNoWait(retryAfterSeconds: number | undefined): void {
  if (retryAfterSeconds !== undefined) throw budgetError(retryAfterSeconds);
}
