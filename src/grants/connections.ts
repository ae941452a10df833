/** Owns connections as people see them: made by a consent, listed with their health, and ended with the provider told. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderSaid, RevocationOutcome } from '../connected-apps/provider-said.ts';
import type { By, Events, Origin } from '../observability/events.ts';
import { type Consent, canLast, consentedGrant, OFFLINE, sameAccount } from './consent.ts';
import { type Grant, type Health, healthOf, isBroken, revocationToken, type TroubleCause } from './grant.ts';
import type { GrantReading, GrantStore, StoredGrant } from './grant-store.ts';
import type { PendingRevocation, RevocationRequest, Revocations } from './revocations.ts';

export interface Connection {
  app: string;
  health: Health;
  cause: TroubleCause | undefined;
  scopes: readonly string[];
  account: Grant['account'];
  /** Milliseconds since the epoch. */
  connectedAt: number | undefined;
  lastUsedAt: number | undefined;
}

export interface Connections {
  find(userId: string, appId: string): Promise<Connection | undefined>;
  list(userId: string): Promise<Connection[]>;
  /**
   * True where a refresh token is held that is good for these scopes and no more, so that none needs to be consented to anew.
   * @param forAll whether it has to be good for each of them: one that is to be added needs a new one
   */
  holdsRefreshToken(userId: string, appId: string, scopes: readonly string[], forAll?: boolean): Promise<boolean>;
  /** Begins to read what `make` will ask for. */
  readAhead(userId: string, appId: string): GrantReading;
  /** Keeps what a code brought; an earlier grant of the same user and app is replaced. */
  make(request: MakeRequest): Promise<void>;
  /** Deletes here at once and revokes at the provider; undefined where there was nothing. */
  end(userId: string, app: ConnectedApp, context?: EndedBy): Promise<Disconnected | undefined>;
  /** Deletes here alone, where the app itself is gone; undefined where there was nothing. */
  forget(userId: string, appId: string, context?: EndedBy): Promise<Disconnected | undefined>;
  /** Revocations of this user that the provider has not confirmed yet. */
  pendingRevocations(userId: string): Promise<PendingRevocation[]>;
  /** The ID token that signing out at the provider needs as a hint. */
  idToken(userId: string, appId: string): Promise<string | undefined>;
}

/**
 * What the provider answered. `pending`: it did not confirm, and is asked again until it does. `unconfirmed`: nobody can ask
 * it, because what was kept cannot be read or its app is gone.
 */
export type DisconnectAnswer = RevocationOutcome | 'pending';

export interface Disconnected {
  revocation: DisconnectAnswer;
  /** In the provider's own terms, where it was asked. */
  said?: ProviderSaid;
}

/** Who ended it, where that is not its user, and from where. */
export interface EndedBy {
  by?: By | undefined;
  /** It stands in the audit trail already. */
  audited?: boolean | undefined;
  origin?: Origin | undefined;
}

export interface MakeRequest extends Consent {
  origin?: Origin | undefined;
  /** Of the grant, begun with this request. */
  ahead?: GrantReading | undefined;
}

export function createConnections(parts: {
  grants: GrantStore;
  revocations: Pick<Revocations, 'plan' | 'cancel' | 'attempt' | 'pendingOf'>;
  events: Events;
  clock: () => number;
}): Connections {
  const { grants, revocations, events, clock } = parts;

  const seen = (appId: string, stored: StoredGrant, lastUsedAt: number | undefined): Connection => {
    if ('unreadable' in stored) {
      const unknown = { scopes: [], account: {}, connectedAt: undefined, lastUsedAt };
      return { app: appId, health: 'reconnect_needed', cause: 'unreadable', ...unknown };
    }
    const { scopes, account, connectedAt, trouble } = stored.grant;
    const health = healthOf(stored.grant, clock());
    // An access that ran out with nothing to renew it is noted only once somebody uses it.
    const cause = trouble?.cause ?? (health === 'reconnect_needed' ? 'access_ended' : undefined);
    return {
      ...{ app: appId, health, cause },
      scopes,
      account,
      connectedAt,
      lastUsedAt,
    };
  };

  const opened = async (userId: string, appId: string): Promise<Grant | undefined> => {
    const stored = await grants.load(userId, appId);
    return stored && 'grant' in stored ? stored.grant : undefined;
  };

  /**
   * Another account's grant that was replaced is revoked. One of the same account is not: most providers keep one grant for
   * each user and client, and revoking any of its tokens would end the new ones too (RFC 7009 section 2.1).
   */
  const withdrawReplaced = async (app: ConnectedApp, replaced: StoredGrant | undefined, account: Grant['account']) => {
    if (!replaced || 'unreadable' in replaced) return;
    const { subject } = replaced.grant.account;
    if (subject === undefined || account.subject === undefined || subject === account.subject) return;
    const { userId } = replaced.grant;
    const planned = await revocations.plan(revocationOf(replaced.grant, undefined));
    // The new connection stands whatever becomes of the old one's tokens.
    await revocations.attempt(app, userId, planned).catch(() => undefined);
  };

  return {
    readAhead: grants.readAhead,

    async find(userId, appId) {
      const [stored, lastUsedAt] = await Promise.all([grants.load(userId, appId), grants.lastUse(userId, appId)]);
      return stored && seen(appId, stored, lastUsedAt);
    },

    async list(userId) {
      const listed = await grants.list(userId);
      return listed.map(({ appId, stored, lastUsedAt }) => seen(appId, stored, lastUsedAt));
    },

    async holdsRefreshToken(userId, appId, scopes, forAll = false) {
      const grant = await opened(userId, appId);
      if (grant?.refreshToken === undefined || !canLast(grant, scopes)) return false;
      return !forAll || scopes.every((scope) => scope === OFFLINE || grant.scopes.includes(scope));
    },

    async make({ origin, ahead, ...consent }) {
      const { userId, app, answer, scopes, account } = consent;
      let stored: StoredGrant | undefined;
      for (let first = true; ; first = false) {
        stored = await grants.load(userId, app.id, first ? ahead : undefined);
        const earlier = stored && 'grant' in stored && sameAccount(stored.grant, account) ? stored.grant : undefined;
        const grant = consentedGrant(consent, earlier, clock());
        // A refresh may write in between: then what it wrote is read again, and replaced.
        if (await grants.save(grant, stored?.version ?? 0)) break;
      }
      events.connectionMade({ userId, app: app.id, scopes: answer.scopes ?? scopes, origin });
      if (stored && 'grant' in stored && isBroken(stored.grant)) {
        events.connectionRecovered({ userId, app: app.id, origin });
      }
      await withdrawReplaced(app, stored, account);
    },

    async end(userId, app, context = {}) {
      // First here, so that a refresh that is under way cannot bring it back; then at the provider, and there the tokens
      // that were deleted: those of a refresh that came in between are newer than what was read before (R43).
      for (;;) {
        const stored = await grants.load(userId, app.id);
        if (!stored) return undefined;
        const request = 'grant' in stored ? revocationOf(stored.grant, stored.version) : undefined;
        const planned = request && (await revocations.plan(request));
        if (await grants.remove(userId, app.id, stored.version)) {
          const asked = planned === undefined ? undefined : await revocations.attempt(app, userId, planned);
          const { outcome: revocation = 'unconfirmed', said } = asked ?? {};
          events.connectionRemoved({ userId, app: app.id, revocation, said, ...context });
          return { revocation, ...(said && { said }) };
        }
        if (planned !== undefined) await revocations.cancel(userId, planned);
      }
    },

    async forget(userId, appId, context = {}) {
      let stored: StoredGrant | undefined;
      do {
        stored = await grants.load(userId, appId);
        if (!stored) return undefined;
      } while (!(await grants.remove(userId, appId, stored.version)));
      events.connectionRemoved({ userId, app: appId, revocation: 'unconfirmed', ...context });
      return { revocation: 'unconfirmed' };
    },

    pendingRevocations: revocations.pendingOf,

    async idToken(userId, appId) {
      return (await opened(userId, appId))?.idToken;
    },
  };
}

function revocationOf(grant: Grant, grantVersion: number | undefined): RevocationRequest {
  const { userId, appId } = grant;
  return { userId, appId, grantVersion, ...revocationToken(grant) };
}
