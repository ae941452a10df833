/** Owns calls that carry a user's access token: one forced refresh and one more try after a 401, never more (R42). */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { Outbound, Target } from '../outbound/outbound.ts';
import type { Stop } from '../outbound/stop.ts';
import type { StreamedAnswer } from '../outbound/streamed-answer.ts';
import type { GrantReading, GrantStore } from './grant-store.ts';
import { type CarriedToken, createTokenCarrier } from './token-carrier.ts';
import type { TokenResult, TokenVault } from './token-vault.ts';

export interface AuthorizedRequest {
  userId: string;
  app: ConnectedApp;
  /** Absolute and fixed by the caller's own settings, never by a request (R74). */
  url: string;
  /** Names and values by turns. */
  headers: readonly string[];
  /** Ends the call, its body included. A refresh that was begun for it goes on by itself (F22). */
  stop: Stop;
  /** Waited for before each request that carries a token, the second one after a 401 included; where it throws, none goes. */
  beforeSending?: (() => Promise<void> | undefined) | undefined;
  /** Of the grant, begun with this request. */
  ahead?: GrantReading | undefined;
}

export type AuthorizedAnswer = { kind: 'answer'; response: StreamedAnswer } | Exclude<TokenResult, { kind: 'token' }>;

export interface AuthorizedFetch {
  /**
   * GETs the URL. Rejects with what undici reports, an OutboundError where the address is refused, or what `beforeSending` throws; where it is stopped
   * before there is a token, the answer is `unavailable`.
   */
  get(request: AuthorizedRequest): Promise<AuthorizedAnswer>;
}

export function createAuthorizedFetch(parts: {
  vault: TokenVault;
  grants: GrantStore;
  outbound: Outbound;
}): AuthorizedFetch {
  const { vault, grants, outbound } = parts;

  const carrier = createTokenCarrier();

  const send = (request: AuthorizedRequest, target: Target, token: CarriedToken): Promise<StreamedAnswer> =>
    carrier.send(token, target, (authorization) => {
      const { headers, stop } = request;
      const call = () => {
        const { answer, destroy } = outbound.stream(target, [...headers, ...authorization]);
        stop.whenStopped(() => destroy(new Error('Nobody waits for the answer any longer.')));
        return answer;
      };
      const awaited = request.beforeSending?.();
      return awaited ? awaited.then(call) : call();
    });

  const tokenFor = ({ userId, app, stop, ahead }: AuthorizedRequest, rejected?: string): Promise<TokenResult> =>
    // After a refusal the grant may be another one already.
    unlessStopped(vault.accessToken(userId, app, rejected, rejected === undefined ? ahead : undefined), stop);

  const accepted = (
    { userId, app }: AuthorizedRequest,
    token: Extract<TokenResult, { kind: 'token' }>,
    response: StreamedAnswer,
  ): AuthorizedAnswer => {
    // Neither is worth a wait, and neither rejects.
    void grants.noteUse(userId, app.id);
    if (token.doubted) void vault.clearDoubt(userId, app.id, token.accessToken);
    return { kind: 'answer', response };
  };

  return {
    async get(request) {
      // A refused address costs no refresh.
      const target = outbound.target(request.url);
      const first = await tokenFor(request);
      if (first.kind !== 'token') return first;
      const response = await send(request, target, first);
      if (response.statusCode !== 401) return accepted(request, first, response);
      response.body.destroy(new Error('The answer to a refused token is not read.'));
      const second = await tokenFor(request, first.accessToken);
      if (second.kind !== 'token') return second;
      const again = await send(request, target, second);
      return again.statusCode === 401 ? { kind: 'answer', response: again } : accepted(request, second, again);
    },
  };
}

/** What is answered to a caller who cannot wait for the provider any longer. */
const TOO_SLOW: TokenResult = { kind: 'unavailable', cause: 'provider_unavailable', retryAfterSeconds: 5 };

/** Waits for the token as long as the caller does. */
function unlessStopped(token: Promise<TokenResult>, stop: Stop): Promise<TokenResult> {
  return new Promise((resolve, reject) => {
    token.then(resolve, reject);
    stop.whenStopped(() => resolve(TOO_SLOW));
  });
}
