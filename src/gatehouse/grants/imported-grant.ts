/**
 * Imports refresh tokens from another system. Each is stored in a grant without an access token, and then checked by
 * one refresh.
 */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import type { Write } from '../../shared/storage/store.ts';
import { isIssuedFor, registrationOf } from '../connected-apps/registration.ts';
import { CONFIRM_TIMEOUT_MS, saveConfirmed, undoWrite } from './confirmed-writes.ts';
import { newConnectionId } from './connection-ids.ts';
import { sameAccount } from './consent.ts';

import { type Grant, healthOf, isUnchecked, type StoredGrant } from './grant.ts';
import type { GrantStore } from './grant-store.ts';
import type { Refreshed, Refresher } from './refresh.ts';
import type { FailureCause } from './refresh-failure.ts';
import { OTHER_SUBJECT } from './refresh-outcome.ts';

export interface ImportedGrant {
  userId: string;
  app: ConnectedApp;
  refreshToken: string;
  scopes: readonly string[];
  account: Grant['account'];
  /** The conditions of the user (`UserStore.conditionsForImport`); undefined if nothing may be stored. */
  conditions: () => Promise<readonly Write[] | undefined>;
}

/**
 * `unchecked`: stored, but no refresh has succeeded yet. The provider is not called for this grant before `retryAt`.
 */
export type ImportOutcome =
  | { kind: 'imported' }
  | { kind: 'already_connected' }
  /** Nothing was stored. */
  | { kind: 'invalid'; cause: 'unreadable' }
  | { kind: 'refused'; cause: FailureCause | 'other_account' | 'removed' }
  | { kind: 'unchecked'; cause: FailureCause; retryAt: number; reason?: string | undefined };

export interface GrantImports {
  /**
   * Stores the refresh token, unless the user has a connection that may work (even by another registration of the app),
   * or one that cannot be read because its key is missing. After an interruption, finds the grant that it stored.
   * @param onNew called once before the first write, with the id of the connection
   * @returns undefined if the grant is stored and must be checked
   */
  seal(imported: ImportedGrant, onNew: (id: string) => Promise<void>): Promise<ImportOutcome | undefined>;

  /** Refreshes a stored grant, or waits for the process that refreshes it. */
  check(imported: Pick<ImportedGrant, 'userId' | 'app'>): Promise<ImportOutcome>;
}

export function createGrantImports(parts: {
  grants: GrantStore;
  /** Whether the app still exists with a registration whose tokens may be sent to the same places. */
  isRegistered: (app: ConnectedApp) => Promise<boolean>;
  refresher: Pick<Refresher, 'attempt'>;
  clock: () => number;
}): GrantImports {
  const { grants, isRegistered, refresher, clock } = parts;

  return {
    async seal(imported, onNew) {
      const { userId, app } = imported;
      const newId = newConnectionId();
      let isAnnounced = false;
      for (;;) {
        const stored = await grants.loadStored(userId, app.id);
        const outcome = stored && outcomeOf(stored, imported, clock());
        if (outcome) return outcome === 'sealed' ? undefined : outcome;
        const id = reusedId(stored, imported) ?? newId;
        if (!isAnnounced) {
          await onNew(id);
          // If the process ends before the check, the next start checks the grant, as for an unfinished refresh.
          await grants.addUnfinishedRefresh(userId, app.id);
          isAnnounced = true;
        }
        const writes = await imported.conditions();
        if (!writes) return { kind: 'refused', cause: 'removed' };
        const unchecked = uncheckedGrant(imported, id, clock());
        const version = await saveConfirmed(grants, unchecked, stored?.version ?? 0, { writes });
        if (version === undefined) continue;
        // The app is looked for after the write, as in `connections.connect`.
        if (await retryWhileUnavailable(() => isRegistered(app), CONFIRM_TIMEOUT_MS)) return undefined;
        await retryWhileUnavailable(
          async () => undoWrite(grants, unchecked, stored, version, await imported.conditions()),
          CONFIRM_TIMEOUT_MS,
        );
        return { kind: 'refused', cause: 'removed' };
      }
    },

    async check({ userId, app }) {
      const { stored, outcome } = await refresher.attempt({ userId, app });
      if (!stored) return { kind: 'refused', cause: isOtherSubject(outcome) ? 'other_account' : 'removed' };
      if ('unreadable' in stored) return { kind: 'refused', cause: 'unreadable' };
      const { grant } = stored;
      return isUnchecked(grant) ? failureOf(grant) : { kind: 'imported' };
    },
  };
}

/** Returns undefined if the import must replace the stored grant, and `sealed` if the grant must only be checked. */
function outcomeOf(stored: StoredGrant, imported: ImportedGrant, now: number): ImportOutcome | 'sealed' | undefined {
  if ('unreadable' in stored) return { kind: 'invalid', cause: 'unreadable' };
  const { grant } = stored;
  const needsReconnect = healthOf(grant, now) === 'reconnect_needed';
  if (!needsReconnect && !isUnchecked(grant)) return { kind: 'already_connected' };
  if (!isIssuedFor(grant.registration, imported.app)) return undefined;
  if (!needsReconnect) return 'sealed';
  // The provider refused this refresh token before: a second call would get the same response.
  return isUnchecked(grant) && grant.refreshToken === imported.refreshToken ? failureOf(grant) : undefined;
}

/** Returns the id of the stored connection, if the import has the same account and registration. */
function reusedId(stored: StoredGrant | undefined, { app, account }: ImportedGrant): string | undefined {
  if (!stored || 'unreadable' in stored) return undefined;
  const { grant } = stored;
  return isIssuedFor(grant.registration, app) && sameAccount(app, grant, account) ? grant.id : undefined;
}

function failureOf({ failure }: Grant): ImportOutcome {
  const { kind, cause = 'not_checked', retryAt = 0, reason } = failure ?? {};
  return kind === 'reconnect_needed' ? { kind: 'refused', cause } : { kind: 'unchecked', cause, retryAt, reason };
}

function isOtherSubject(outcome: Refreshed['outcome']): boolean {
  return outcome?.kind === 'unusable' && outcome.reason === OTHER_SUBJECT;
}

/** Creates a grant that expired in 1970, so that it stays unusable even if the clock is set back. */
function uncheckedGrant(
  { userId, app, refreshToken, scopes, account }: Omit<ImportedGrant, 'conditions'>,
  id: string,
  now: number,
): Grant {
  return {
    id,
    userId,
    appId: app.id,
    registration: registrationOf(app),
    accessToken: '',
    refreshToken,
    scopes: [...scopes],
    account,
    obtainedAt: 0,
    expiresAt: 0,
    connectedAt: now,
    consentedAt: now,
    failure: { kind: 'passing', cause: 'not_checked', since: now, failures: 0, retryAt: 0 },
    refresh: undefined,
  };
}
