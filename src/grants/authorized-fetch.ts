/** Owns calls that carry a user's access token: one forced refresh and one more try after a 401, never more (R42). */
import type { Dispatcher } from 'undici';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { GrantStore } from './grant-store.ts';
import type { TokenResult, TokenVault } from './token-vault.ts';

export interface AuthorizedRequest {
  userId: string;
  app: ConnectedApp;
  /** Absolute and fixed by the caller's own settings, never by a request (R74). */
  url: string;
  headers: Record<string, string>;
  /** Aborts the call, its body included. A refresh that was begun for it goes on by itself (F22). */
  signal: AbortSignal;
}

export type AuthorizedAnswer =
  | { kind: 'answer'; response: Dispatcher.ResponseData }
  | Exclude<TokenResult, { kind: 'token' }>;

export interface AuthorizedFetch {
  /**
   * GETs the URL. Rejects with what undici rejects with, or an OutboundError where the address is refused; where the signal
   * comes before there is a token, the answer is `unavailable`.
   */
  get(request: AuthorizedRequest): Promise<AuthorizedAnswer>;
}

export function createAuthorizedFetch(parts: {
  vault: TokenVault;
  grants: GrantStore;
  outbound: Outbound;
}): AuthorizedFetch {
  const { vault, grants, outbound } = parts;

  const send = (request: AuthorizedRequest, accessToken: string): Promise<Dispatcher.ResponseData> => {
    return outbound.dispatcher.request({
      ...outbound.target(request.url),
      method: 'GET',
      headers: { ...request.headers, authorization: `Bearer ${accessToken}` },
      signal: request.signal,
    });
  };

  const tokenFor = ({ userId, app, signal }: AuthorizedRequest, rejected?: string): Promise<TokenResult> =>
    unlessAborted(vault.accessToken(userId, app, rejected), signal);

  const accepted = (
    { userId, app }: AuthorizedRequest,
    token: Extract<TokenResult, { kind: 'token' }>,
    response: Dispatcher.ResponseData,
  ): AuthorizedAnswer => {
    // Neither is worth a wait, and neither rejects.
    void grants.noteUse(userId, app.id);
    if (token.doubted) void vault.clearDoubt(userId, app.id, token.accessToken);
    return { kind: 'answer', response };
  };

  return {
    async get(request) {
      // A refused address costs no refresh.
      outbound.target(request.url);
      const first = await tokenFor(request);
      if (first.kind !== 'token') return first;
      const response = await send(request, first.accessToken);
      if (response.statusCode !== 401) return accepted(request, first, response);
      discard(response);
      const second = await tokenFor(request, first.accessToken);
      if (second.kind !== 'token') return second;
      const again = await send(request, second.accessToken);
      return again.statusCode === 401 ? { kind: 'answer', response: again } : accepted(request, second, again);
    },
  };
}

/** What is answered to a caller who cannot wait for the provider any longer. */
const TOO_SLOW: TokenResult = { kind: 'unavailable', cause: 'provider_unavailable', retryAfterSeconds: 5 };

/** Waits for the token as long as the caller does. */
function unlessAborted(token: Promise<TokenResult>, signal: AbortSignal): Promise<TokenResult> {
  return new Promise((resolve, reject) => {
    const stop = () => resolve(TOO_SLOW);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    token.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

function discard(response: Dispatcher.ResponseData): void {
  response.body.on('error', () => undefined).destroy();
}
