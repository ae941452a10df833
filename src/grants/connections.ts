/** Connections of users: made by a consent, listed with their health, and ended by a revocation at the provider. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderReply, RevocationOutcome } from '../connected-apps/provider-reply.ts';
import type { TokenResponse } from '../connected-apps/token-response.ts';
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
   * True where the stored refresh token covers no scope beyond these, so that no new consent is needed for one.
   * @param forAll whether it must cover each of these scopes as well
   */
  holdsRefreshToken(userId: string, appId: string, scopes: readonly string[], forAll?: boolean): Promise<boolean>;
  /** Starts the read that `make` needs. */
  readAhead(userId: string, appId: string): GrantReading;
  /** Stores the tokens of a code exchange; an earlier grant of the same user and app is replaced. */
  make(request: MakeRequest): Promise<void>;
  /**
   * Revokes tokens that were not stored, without waiting for the provider. Where the user has a connection to the same app
   * the tokens are left to expire, since revoking one token of a user and client ends all of them at most providers
   * (RFC 7009 section 2.1).
   */
  discard(userId: string, app: ConnectedApp, response: TokenResponse): Promise<void>;
  /** Deletes the grant and revokes it at the provider; undefined where there was none. */
  end(userId: string, app: ConnectedApp, context?: EndedBy): Promise<Disconnected | undefined>;
  /** Deletes the grant of an app that no longer exists; undefined where there was none. */
  forget(userId: string, appId: string, context?: EndedBy): Promise<Disconnected | undefined>;
  /** Revocations of this user that the provider has not confirmed yet. */
  pendingRevocations(userId: string): Promise<PendingRevocation[]>;
}

/**
 * How the revocation ended. `pending`: the provider did not confirm it, and it will be retried. `unconfirmed`: it cannot be
 * requested, because the grant cannot be read or its app no longer exists.
 */
export type DisconnectResult = RevocationOutcome | 'pending';

export interface Disconnected {
  revocation: DisconnectResult;
  /** The provider's response, where it was called. */
  said?: ProviderReply;
}

/** Who ended the connection, where it was not its user, and from where. */
export interface EndedBy {
  by?: By | undefined;
  /** The audit trail has an entry for it already. */
  audited?: boolean | undefined;
  origin?: Origin | undefined;
}

export interface MakeRequest extends Consent {
  origin?: Origin | undefined;
  /** A read of the grant that was started with the request. */
  ahead?: GrantReading | undefined;
}

export function createConnections(parts: {
  grants: GrantStore;
  revocations: Pick<Revocations, 'plan' | 'cancel' | 'attempt' | 'pendingOf'>;
  events: Events;
  clock: () => number;
}): Connections {
  const { grants, revocations, events, clock } = parts;

  const connectionOf = (appId: string, stored: StoredGrant, lastUsedAt: number | undefined): Connection => {
    if ('unreadable' in stored) {
      const unknown = { scopes: [], account: {}, connectedAt: undefined, lastUsedAt };
      return { app: appId, health: 'reconnect_needed', cause: 'unreadable', ...unknown };
    }
    const { scopes, account, connectedAt, trouble } = stored.grant;
    const health = healthOf(stored.grant, clock());
    // An expired grant without a refresh token is marked only when it is used.
    const cause = trouble?.cause ?? (health === 'reconnect_needed' ? 'access_ended' : undefined);
    return {
      ...{ app: appId, health, cause },
      scopes,
      account,
      connectedAt,
      lastUsedAt,
    };
  };

  const loadReadable = async (userId: string, appId: string): Promise<Grant | undefined> => {
    const stored = await grants.load(userId, appId);
    return stored && 'grant' in stored ? stored.grant : undefined;
  };

  /**
   * Revokes the replaced grant of another account. One of the same account is not revoked: most providers keep one grant for
   * each user and client, and revoking any of its tokens would end the new ones too (RFC 7009 section 2.1).
   */
  const revokeReplaced = async (app: ConnectedApp, replaced: StoredGrant | undefined, account: Grant['account']) => {
    if (!replaced || 'unreadable' in replaced) return;
    const { subject } = replaced.grant.account;
    if (subject === undefined || account.subject === undefined || subject === account.subject) return;
    const { userId } = replaced.grant;
    const planned = await revocations.plan(revocationOf(replaced.grant, undefined));
    // The new connection does not depend on this revocation.
    await revocations.attempt(app, userId, planned).catch(() => undefined);
  };

  return {
    readAhead: grants.readAhead,

    async find(userId, appId) {
      const [stored, lastUsedAt] = await Promise.all([grants.load(userId, appId), grants.lastUse(userId, appId)]);
      return stored && connectionOf(appId, stored, lastUsedAt);
    },

    async list(userId) {
      const listed = await grants.list(userId);
      return listed.map(({ appId, stored, lastUsedAt }) => connectionOf(appId, stored, lastUsedAt));
    },

    async holdsRefreshToken(userId, appId, scopes, forAll = false) {
      const grant = await loadReadable(userId, appId);
      if (grant?.refreshToken === undefined || !canLast(grant, scopes)) return false;
      return !forAll || scopes.every((scope) => scope === OFFLINE || grant.scopes.includes(scope));
    },

    async make({ origin, ahead, ...consent }) {
      const { userId, app, response, scopes, account } = consent;
      let stored: StoredGrant | undefined;
      for (let first = true; ; first = false) {
        stored = await grants.load(userId, app.id, first ? ahead : undefined);
        const earlier = stored && 'grant' in stored && sameAccount(stored.grant, account) ? stored.grant : undefined;
        const grant = consentedGrant(consent, earlier, clock());
        // A refresh may have written since: load again and replace its grant.
        if (await grants.save(grant, stored?.version ?? 0)) break;
      }
      events.connectionMade({ userId, app: app.id, scopes: response.scopes ?? scopes, origin });
      if (stored && 'grant' in stored && isBroken(stored.grant)) {
        events.connectionRecovered({ userId, app: app.id, origin });
      }
      await revokeReplaced(app, stored, account);
    },

    async discard(userId, app, { accessToken, refreshToken }) {
      if (await grants.load(userId, app.id)) return;
      const newest =
        refreshToken === undefined
          ? ({ token: accessToken, hint: 'access_token' } as const)
          : ({ token: refreshToken, hint: 'refresh_token' } as const);
      const planned = await revocations.plan({ userId, appId: app.id, ...newest });
      // Not awaited: a planned revocation is retried later.
      void revocations.attempt(app, userId, planned).catch(() => undefined);
    },

    async end(userId, app, context = {}) {
      // Deleted first, so that a refresh in flight cannot restore the grant. Only a delete of the version that was read
      // goes on to revoke: a refresh in between would have stored newer tokens, and those must be revoked (R43).
      for (;;) {
        const stored = await grants.load(userId, app.id);
        if (!stored) return undefined;
        const request = 'grant' in stored ? revocationOf(stored.grant, stored.version) : undefined;
        const planned = request && (await revocations.plan(request));
        if (await grants.remove(userId, app.id, stored.version)) {
          const attempted = planned === undefined ? undefined : await revocations.attempt(app, userId, planned);
          const { outcome: revocation = 'unconfirmed', said } = attempted ?? {};
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
  };
}

function revocationOf(grant: Grant, grantVersion: number | undefined): RevocationRequest {
  const { userId, appId } = grant;
  return { userId, appId, grantVersion, ...revocationToken(grant) };
}
