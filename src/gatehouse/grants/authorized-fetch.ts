/** Calls with a user's access token: after a 401, one forced refresh and one more attempt (R42). */

import type { Outbound, Target } from '../../shared/outbound/outbound.ts';
import { type Stop, stopError } from '../../shared/outbound/stop.ts';
import type { StreamedResponse } from '../../shared/outbound/streamed-body.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { readSignInDemand } from '../../shared/provider/sign-in-demand.ts';
import type { AccessTokens, TokenResult, Unavailable } from './access-tokens.ts';
import type { GrantReading, GrantStore } from './grant-store.ts';
import { keepDemand } from './keep-demand.ts';
import { missingScopes } from './missing-scopes.ts';
import { type CarriedToken, createTokenCarrier } from './token-carrier.ts';

export interface AuthorizedCall {
  method: string;
  /** The path below the base URL, with the query. */
  path: string;
  /** Alternating names and values. */
  headers: readonly string[];
  body?: Buffer | undefined;
  /** Nothing is sent with a token of a user who did not grant these scopes of the app. */
  neededScopes: readonly string[];
}

export interface AuthorizedRequest {
  /** The owner of the access token: the id of a user or of a service account. */
  ownerId: string;
  app: ConnectedApp;
  call: AuthorizedCall;
  /**
   * Returns an absolute URL without a slash at the end, from settings and the grant, never from a request (R74).
   * @param apiBaseUrl the grant's API base URL, if it has one
   */
  baseUrlFor: (apiBaseUrl?: string) => string;
  /** Ends the call and its body. A refresh that was started for it continues (F22). */
  stop: Stop;
  /** Awaited before each request, including the second one after a 401. If it throws, no request is sent. */
  beforeSending?: (() => Promise<void> | undefined) | undefined;
  /** A read of the grant that was started with the request. */
  prefetched?: GrantReading | undefined;
  /** The relay token of the service that the call is for; undefined if it is for a browser. */
  relayTokenId?: string | undefined;
}

type Token = Extract<TokenResult, { kind: 'token' }>;

export type AuthorizedResponse =
  | { kind: 'response'; response: StreamedResponse }
  /** The connection lacks these scopes of the app, so nothing was sent. */
  | { kind: 'scopes_missing'; scopes: string[] }
  /** The platform demands a stronger or newer sign-in of the user, which the grant now remembers. */
  | ({ kind: 'step_up' } & Pick<StreamedResponse, 'statusCode' | 'headers'>)
  | Exclude<TokenResult, { kind: 'token' }>;

export interface AuthorizedFetch {
  /**
   * Sends the call to its path below the base URL. If it is stopped before there is a token, the result is `unavailable`.
   * @throws OutboundError if the address is refused; errors of undici; errors of `beforeSending`
   */
  send(request: AuthorizedRequest): Promise<AuthorizedResponse>;
}

export function createAuthorizedFetch(parts: {
  accessTokens: AccessTokens;
  grants: GrantStore;
  outbound: Outbound;
}): AuthorizedFetch {
  const { accessTokens, grants, outbound } = parts;

  const carrier = createTokenCarrier();

  const send = (request: AuthorizedRequest, target: Target, token: CarriedToken): Promise<StreamedResponse> => {
    const { call, stop, app, relayTokenId } = request;
    const { method, headers, body } = call;
    return carrier.send(token, method, target, (authorization) => {
      const begin = () => {
        const { response, destroy } = outbound.stream(target, [...headers, ...authorization], {
          method,
          body,
          app: app.id,
          service: relayTokenId,
        });
        stop.endStepWith(() => destroy(stopError(stop.tooLate)));
        return response;
      };
      const waiting = request.beforeSending?.();
      return waiting ? waiting.then(begin) : begin();
    });
  };

  const accepted = (
    { ownerId: userId, app }: AuthorizedRequest,
    token: Extract<TokenResult, { kind: 'token' }>,
    response: StreamedResponse,
  ): AuthorizedResponse => {
    // Neither is awaited: the response does not depend on them, and they never reject. A 5xx does not show that the
    // connection works, so it is not a use.
    if (response.statusCode < 500) void grants.noteUse(userId, app.id);
    if (token.wasRefused) void accessTokens.clearRefusal(userId, app.id, token.accessToken);
    return { kind: 'response', response };
  };

  /** Stores the demand of a response with the grant. The promise is undefined for a response without one. */
  const demandOf = (
    { ownerId: userId, app: { id: appId } }: AuthorizedRequest,
    { consentedAt }: Token,
    response: StreamedResponse,
  ): Promise<AuthorizedResponse> | undefined => {
    const demand = readSignInDemand(response);
    if (demand === undefined || demand === 'unusable') return undefined;
    const { statusCode, headers, body } = response;
    void grants.noteUse(userId, appId);
    body.destroy(new Error('The response to a sign-in that does not suffice is not read.'));
    return keepDemand(grants, { userId, appId, consentedAt }, demand).then(() => ({
      kind: 'step_up',
      statusCode,
      headers,
    }));
  };

  return {
    async send(request) {
      const { ownerId: userId, app, call, stop, prefetched, relayTokenId } = request;
      const targetFor = (apiBaseUrl?: string) => targetBelow(outbound, request.baseUrlFor(apiBaseUrl), call.path);
      // Checked first, so that a refused address causes no refresh.
      const defaultTarget = targetFor();
      const targetOf = ({ apiBaseUrl }: { apiBaseUrl?: string | undefined }) =>
        apiBaseUrl === undefined ? defaultTarget : targetFor(apiBaseUrl);
      const result = await unlessStopped(accessTokens.get(userId, app, { prefetched, relayTokenId }), stop);
      if (result.kind !== 'token') return result;
      const scopes = call.neededScopes.length > 0 ? lackingScopes(app, call.neededScopes, result) : [];
      if (scopes.length > 0) return { kind: 'scopes_missing', scopes };
      const response = await send(request, targetOf(result), result);
      // A refresh does not change how the user signed in.
      const stepUp = demandOf(request, result, response);
      if (stepUp) return stepUp;
      if (response.statusCode !== 401) return accepted(request, result, response);
      response.body.destroy(new Error('The response to a refused token is not read.'));
      const newResult = await unlessStopped(
        accessTokens.getAnother(userId, app, result.accessToken, { relayTokenId }),
        stop,
      );
      // The response says why the platform refuses a fresh token.
      if (newResult.kind === 'still_refused') return { kind: 'response', response };
      if (newResult.kind !== 'token') return newResult;
      const secondResponse = await send(request, targetOf(newResult), newResult);
      const secondStepUp = demandOf(request, newResult, secondResponse);
      if (secondStepUp) return secondStepUp;
      if (secondResponse.statusCode === 401) return { kind: 'response', response: secondResponse };
      return accepted(request, newResult, secondResponse);
    },
  };
}

/** Returns the target of a path below a URL. The URLs are cached; the paths, of which there are many more, are not. */
export function targetBelow(outbound: Pick<Outbound, 'target'>, baseUrl: string, path: string): Target {
  const base = outbound.target(baseUrl);
  return { origin: base.origin, path: base.path === '/' ? path : base.path + path };
}

function lackingScopes(app: ConnectedApp, needed: readonly string[], token: Token): string[] {
  const missing = missingScopes(app, token);
  return needed.filter((scope) => missing.includes(scope));
}

const TOO_SLOW: Unavailable = {
  kind: 'unavailable',
  cause: 'provider_unavailable',
  isUnverified: false,
  retryAfterSeconds: 5,
};

function unlessStopped<Result>(result: Promise<Result>, stop: Stop): Promise<Result | Unavailable> {
  return new Promise((resolve, reject) => {
    result.then(resolve, reject);
    stop.endStepWith(() => resolve(TOO_SLOW));
  });
}
