/** Owns the answer to "an access token for this user and app, please": a token, or why there is none. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { isRefreshDue, isUsable, type TroubleCause } from './grant.ts';
import type { GrantStore, StoredGrant } from './grant-store.ts';
import { type Refresher, spreadOf } from './refresh.ts';

/** An expected failure is a value: nothing here is thrown but what the storage throws. */
export type TokenResult =
  | { kind: 'token'; accessToken: string; scopes: readonly string[] }
  | { kind: 'not_connected' }
  | { kind: 'reconnect_needed'; cause: TroubleCause }
  /** The token that was refused is as new as can be had. */
  | { kind: 'still_refused' }
  | { kind: 'unavailable'; cause: TroubleCause; retryAfterSeconds: number };

export interface TokenVault {
  /**
   * A fresh access token, refreshed first where that is due.
   * @param rejected the token that the platform just refused: asks for another one
   */
  accessToken(userId: string, app: ConnectedApp, rejected?: string): Promise<TokenResult>;
}

export function createTokenVault(parts: { grants: GrantStore; refresher: Refresher; clock: () => number }): TokenVault {
  const { grants, refresher, clock } = parts;

  return {
    async accessToken(userId, app, rejected) {
      const stored = await grants.load(userId, app.id);
      if (isReady(stored, rejected, clock(), userId)) return resultOf(stored, rejected, clock());
      return resultOf(await refresher.refresh({ userId, app, rejected }), rejected, clock());
    },
  };
}

/** True where the stored grant can be answered as it is. */
function isReady(stored: StoredGrant | undefined, rejected: string | undefined, now: number, userId: string): boolean {
  if (!stored || 'unreadable' in stored) return true;
  const { grant } = stored;
  if (grant.trouble?.kind === 'reconnect_needed') return true;
  return grant.accessToken !== rejected && isUsable(grant, now) && !isRefreshDue(grant, now, spreadOf(userId));
}

function resultOf(stored: StoredGrant | undefined, rejected: string | undefined, now: number): TokenResult {
  if (!stored) return { kind: 'not_connected' };
  if ('unreadable' in stored) return { kind: 'reconnect_needed', cause: 'unreadable' };
  const { grant } = stored;
  if (grant.trouble?.kind === 'reconnect_needed') return { kind: 'reconnect_needed', cause: grant.trouble.cause };
  // A token that has not ended is used although its refresh failed (R42).
  if (isUsable(grant, now) && grant.accessToken !== rejected) {
    return { kind: 'token', accessToken: grant.accessToken, scopes: grant.scopes };
  }
  if (!grant.trouble) return { kind: 'still_refused' };
  const { cause, retryAt } = grant.trouble;
  if (cause === 'access_token_refused') return { kind: 'reconnect_needed', cause };
  return { kind: 'unavailable', cause, retryAfterSeconds: Math.max(1, Math.ceil((retryAt - now) / 1000)) };
}
