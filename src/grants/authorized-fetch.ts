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
  /** Aborts the call, its body included. */
  signal: AbortSignal;
}

export type AuthorizedAnswer =
  | { kind: 'answer'; response: Dispatcher.ResponseData }
  | Exclude<TokenResult, { kind: 'token' }>;

export interface AuthorizedFetch {
  /** GETs the URL. Rejects with what undici rejects with, or an OutboundError where the address is refused. */
  get(request: AuthorizedRequest): Promise<AuthorizedAnswer>;
}

export function createAuthorizedFetch(parts: {
  vault: TokenVault;
  grants: GrantStore;
  outbound: Outbound;
}): AuthorizedFetch {
  const { vault, grants, outbound } = parts;

  const send = (request: AuthorizedRequest, accessToken: string): Promise<Dispatcher.ResponseData> => {
    const url = new URL(request.url);
    return outbound.dispatcher.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: 'GET',
      headers: { ...request.headers, authorization: `Bearer ${accessToken}` },
      signal: request.signal,
    });
  };

  return {
    async get(request) {
      outbound.assertAllowed(request.url);
      const first = await vault.accessToken(request.userId, request.app);
      if (first.kind !== 'token') return first;
      const response = await send(request, first.accessToken);
      if (response.statusCode !== 401) {
        await grants.noteUse(request.userId, request.app.id);
        return { kind: 'answer', response };
      }
      const second = await vault.accessToken(request.userId, request.app, first.accessToken);
      discard(response);
      if (second.kind !== 'token') return second;
      return { kind: 'answer', response: await send(request, second.accessToken) };
    },
  };
}

function discard(response: Dispatcher.ResponseData): void {
  response.body.on('error', () => undefined).destroy();
}
