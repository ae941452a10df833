/** Owns the answer to "an access token for this user and app, please": a token, or why there is none. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { DpopKey } from '../connected-apps/dpop.ts';
import { AppError } from '../errors.ts';
import { type Grant, isRefreshDue, isUsable, spreadOf, type TroubleCause } from './grant.ts';
import type { GrantReading, GrantStore, StoredGrant } from './grant-store.ts';
import type { Refresher } from './refresh.ts';

/** An expected failure is a value: nothing here is thrown but what the storage throws. */
export type TokenResult =
  | {
      kind: 'token';
      accessToken: string;
      /** What it is bound to (RFC 9449); undefined for a bearer token. */
      dpopKey: DpopKey | undefined;
      scopes: readonly string[];
      /** The platform refused this very token before, and there was no other to be had. */
      doubted: boolean;
    }
  | { kind: 'not_connected' }
  | { kind: 'reconnect_needed'; cause: TroubleCause }
  /** The token that was refused is as new as can be had. */
  | { kind: 'still_refused' }
  | { kind: 'unavailable'; cause: TroubleCause; retryAfterSeconds: number };

export interface TokenVault {
  /**
   * A fresh access token, refreshed first where that is due. One that has not ended is not held back for long by a slow
   * provider: the refresh then goes on by itself.
   * @param rejected the token that the platform just refused: asks for another one
   * @param ahead a reading of the grant that was begun with this request
   */
  accessToken(userId: string, app: ConnectedApp, rejected?: string, ahead?: GrantReading): Promise<TokenResult>;
  /** The platform took a doubted token after all. Never rejects. */
  clearDoubt(userId: string, appId: string, accessToken: string): Promise<void>;
}

const PATIENCE_MILLISECONDS = 2_000;

export function createTokenVault(parts: { grants: GrantStore; refresher: Refresher; clock: () => number }): TokenVault {
  const { grants, refresher, clock } = parts;

  return {
    async accessToken(userId, app, rejected, ahead) {
      const stored = await grants.load(userId, app.id, ahead);
      if (isReady(stored, rejected, clock(), userId)) return resultOf(stored, rejected, clock());
      const refreshed = refresher.refresh({ userId, app, rejected });
      const asItIs = resultOf(stored, rejected, clock());
      return asItIs.kind === 'token'
        ? within(
            refreshed.then(
              (now) => resultOf(now, rejected, clock()),
              (error: unknown) => unlessStored(error, asItIs),
            ),
            asItIs,
          )
        : resultOf(await refreshed, rejected, clock());
    },

    async clearDoubt(userId, appId, accessToken) {
      try {
        const stored = await grants.load(userId, appId);
        if (!stored || 'unreadable' in stored || !isDoubted(stored.grant)) return;
        if (stored.grant.accessToken === accessToken)
          await grants.save({ ...stored.grant, trouble: undefined }, stored.version);
      } catch {
        // The doubt stays until the next good answer.
      }
    },
  };
}

/** A store that cannot note a refresh prevents it; a token that has not ended is good all the same (F16). */
function unlessStored(error: unknown, asItIs: TokenResult): TokenResult {
  if (error instanceof AppError && error.code === 'storage_unavailable') return asItIs;
  throw error;
}

/** The result if it comes soon, else what there was before it. */
function within(result: Promise<TokenResult>, otherwise: TokenResult): Promise<TokenResult> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(otherwise), PATIENCE_MILLISECONDS);
    result.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function isDoubted(grant: Grant): boolean {
  return grant.trouble?.cause === 'access_token_refused';
}

/** True where the stored grant can be answered as it is. */
function isReady(stored: StoredGrant | undefined, rejected: string | undefined, now: number, userId: string): boolean {
  if (!stored || 'unreadable' in stored) return true;
  const { grant } = stored;
  if (grant.trouble?.kind === 'reconnect_needed') return true;
  if (grant.accessToken === rejected || !isUsable(grant, now)) return false;
  // The spread is worked out only where it can matter: most tokens are not due at the earliest moment either.
  return !isRefreshDue(grant, now, 1) || !isRefreshDue(grant, now, spreadOf(userId));
}

function resultOf(stored: StoredGrant | undefined, rejected: string | undefined, now: number): TokenResult {
  if (!stored) return { kind: 'not_connected' };
  if ('unreadable' in stored) return { kind: 'reconnect_needed', cause: 'unreadable' };
  const { grant } = stored;
  if (grant.trouble?.kind === 'reconnect_needed') return { kind: 'reconnect_needed', cause: grant.trouble.cause };
  // A token that has not ended is used although its refresh failed (R42).
  if (isUsable(grant, now) && grant.accessToken !== rejected) {
    const { accessToken, dpopKey, scopes } = grant;
    return { kind: 'token', accessToken, dpopKey, scopes, doubted: isDoubted(grant) };
  }
  if (!grant.trouble) {
    if (grant.accessToken === rejected) return { kind: 'still_refused' };
    // Another process is still at it.
    return { kind: 'unavailable', cause: 'provider_unavailable', retryAfterSeconds: 5 };
  }
  const { cause, retryAt } = grant.trouble;
  if (cause === 'access_token_refused') return { kind: 'reconnect_needed', cause };
  return { kind: 'unavailable', cause, retryAfterSeconds: Math.max(1, Math.ceil((retryAt - now) / 1000)) };
}
