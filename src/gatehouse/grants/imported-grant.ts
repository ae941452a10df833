/** Imports refresh tokens from another system: each is sealed as a grant without an access token, then checked by one refresh. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import type { Write } from '../../shared/storage/store.ts';
import { isIssuedFor, registrationOf } from '../connected-apps/registration.ts';
import { newConnectionId } from './connection-ids.ts';
import { sameAccount } from './consent.ts';
import type { StoredGrant } from './grant.ts';
import { type FailureCause, type Grant, healthOf, isUnchecked } from './grant.ts';
import { CERTAIN_MS, type GrantStore, saveCertainly, undoWrite } from './grant-store.ts';
import type { Refreshed, Refresher } from './refresh.ts';
import { OTHER_SUBJECT } from './refresh-outcome.ts';

export interface ImportedGrant {
  userId: string;
  app: ConnectedApp;
  refreshToken: string;
  scopes: readonly string[];
  account: Grant['account'];
  /** The conditions of the user (`UserStore.conditionsForImport`); undefined where nothing may be made. */
  conditions: () => Promise<readonly Write[] | undefined>;
}

/** `unchecked`: sealed, and no refresh has succeeded yet; the provider is not called for this grant before `retryAt`. */
export type ImportOutcome =
  | { kind: 'imported' }
  | { kind: 'already_connected' }
  /** Nothing was stored. */
  | { kind: 'invalid'; cause: 'unreadable' }
  | { kind: 'refused'; cause: FailureCause | 'other_account' | 'removed' }
  | { kind: 'unchecked'; cause: FailureCause; retryAt: number; reason?: string | undefined };

export interface GrantImports {
  /**
   * Stores the refresh token, unless the user has a connection that may work, if only by another registration of the app, or
   * that cannot be read because its key is missing.
   * An interrupted import finds its own grant.
   * @param onNew called once before the write, with the id of the connection
   * @returns undefined where the grant is stored and has to be checked
   */
  seal(imported: ImportedGrant, onNew: (id: string) => Promise<void>): Promise<ImportOutcome | undefined>;

  /** Refreshes a sealed grant, or waits for the process that does. */
  check(imported: Pick<ImportedGrant, 'userId' | 'app'>): Promise<ImportOutcome>;
}

export function createGrantImports(parts: {
  grants: GrantStore;
  /** Whether the app is there at this moment, and where tokens of this registration may go. */
  isRegistered: (app: ConnectedApp) => Promise<boolean>;
  refresher: Pick<Refresher, 'attempt'>;
  clock: () => number;
}): GrantImports {
  const { grants, isRegistered, refresher, clock } = parts;

  return {
    async seal(imported, onNew) {
      const { userId, app } = imported;
      const newId = newConnectionId();
      let isNoted = false;
      for (;;) {
        const stored = await grants.loadStored(userId, app.id);
        const known = stored && outcomeOf(stored, imported, clock());
        if (known) return known === 'sealed' ? undefined : known;
        const id = keptId(stored, imported) ?? newId;
        if (!isNoted) {
          await onNew(id);
          // A process that ends before the check leaves it to the next start, as it does with an open refresh.
          await grants.noteOpen(userId, app.id);
          isNoted = true;
        }
        const steps = await imported.conditions();
        if (!steps) return { kind: 'refused', cause: 'removed' };
        const unchecked = uncheckedGrant(imported, id, clock());
        const version = await saveCertainly(grants, unchecked, stored?.version ?? 0, { steps });
        if (version === undefined) continue;
        // As for a connection that a user makes (`connections.make`).
        if (await retryWhileUnavailable(() => isRegistered(app), CERTAIN_MS)) return undefined;
        await retryWhileUnavailable(
          async () => undoWrite(grants, unchecked, stored, version, await imported.conditions()),
          CERTAIN_MS,
        );
        return { kind: 'refused', cause: 'removed' };
      }
    },

    async check({ userId, app }) {
      const { stored, outcome } = await refresher.attempt({ userId, app });
      if (!stored) return { kind: 'refused', cause: isOfOther(outcome) ? 'other_account' : 'removed' };
      if ('unreadable' in stored) return { kind: 'refused', cause: 'unreadable' };
      const { grant } = stored;
      return isUnchecked(grant) ? failureOf(grant) : { kind: 'imported' };
    },
  };
}

/** Undefined where the stored grant is to be replaced. */
function outcomeOf(stored: StoredGrant, imported: ImportedGrant, now: number): ImportOutcome | 'sealed' | undefined {
  if ('unreadable' in stored) return { kind: 'invalid', cause: 'unreadable' };
  const { grant } = stored;
  const isBroken = healthOf(grant, now) === 'reconnect_needed';
  if (!isBroken && !isUnchecked(grant)) return { kind: 'already_connected' };
  if (!isIssuedFor(grant.registration, imported.app)) return undefined;
  if (!isBroken) return 'sealed';
  // Refused before: a second call would get the same response.
  return isUnchecked(grant) && grant.refreshToken === imported.refreshToken ? failureOf(grant) : undefined;
}

/** The id of the connection that ended, where the import is of the same account and registration. */
function keptId(stored: StoredGrant | undefined, { app, account }: ImportedGrant): string | undefined {
  if (!stored || 'unreadable' in stored) return undefined;
  const { grant } = stored;
  return isIssuedFor(grant.registration, app) && sameAccount(app, grant, account) ? grant.id : undefined;
}

function failureOf({ failure }: Grant): ImportOutcome {
  const { kind, cause = 'not_checked', retryAt = 0, reason } = failure ?? {};
  return kind === 'reconnect_needed' ? { kind: 'refused', cause } : { kind: 'unchecked', cause, retryAt, reason };
}

function isOfOther(outcome: Refreshed['outcome']): boolean {
  return outcome?.kind === 'unusable' && outcome.reason === OTHER_SUBJECT;
}

/** Expired since 1970, so that a clock that is set back does not make it usable. */
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
