/** Owns connections as people see them: made by a consent, listed with their health, and ended with the provider told. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient, RevocationOutcome, TokenAnswer } from '../connected-apps/provider-client.ts';
import type { Events } from '../observability/events.ts';
import { type Grant, type Health, healthOf, type TroubleCause, withTokens } from './grant.ts';
import type { GrantStore, StoredGrant } from './grant-store.ts';

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
  /** True where a refresh token is held, so that consent need not be asked for again to get one. */
  holdsRefreshToken(userId: string, appId: string): Promise<boolean>;
  /** Keeps what a code brought; an earlier grant of the same user and app is replaced. */
  make(request: MakeRequest): Promise<void>;
  /** Revokes at the provider and deletes here; undefined where there was nothing. */
  end(userId: string, app: ConnectedApp): Promise<RevocationOutcome | undefined>;
  /** The ID token that signing out at the provider needs as a hint. */
  idToken(userId: string, appId: string): Promise<string | undefined>;
}

export interface MakeRequest {
  userId: string;
  app: ConnectedApp;
  answer: TokenAnswer;
  /** What was asked for: granted where the answer names no scopes. */
  scopes: readonly string[];
  account: Grant['account'];
}

export function createConnections(parts: {
  grants: GrantStore;
  provider: ProviderClient;
  events: Events;
  clock: () => number;
}): Connections {
  const { grants, provider, events, clock } = parts;

  const seen = async (userId: string, appId: string, stored: StoredGrant): Promise<Connection> => {
    const lastUsedAt = await grants.lastUse(userId, appId);
    if ('unreadable' in stored) {
      const unknown = { scopes: [], account: {}, connectedAt: undefined, lastUsedAt };
      return { app: appId, health: 'reconnect_needed', cause: 'unreadable', ...unknown };
    }
    const { scopes, account, connectedAt, trouble } = stored.grant;
    return {
      app: appId,
      health: healthOf(stored.grant, clock()),
      cause: trouble?.cause,
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

  return {
    async find(userId, appId) {
      const stored = await grants.load(userId, appId);
      return stored && seen(userId, appId, stored);
    },

    async list(userId) {
      return Promise.all((await grants.list(userId)).map(({ appId, stored }) => seen(userId, appId, stored)));
    },

    async holdsRefreshToken(userId, appId) {
      const grant = await opened(userId, appId);
      return grant?.refreshToken !== undefined && grant.trouble?.kind !== 'reconnect_needed';
    },

    async make({ userId, app, answer, scopes, account }) {
      for (;;) {
        const stored = await grants.load(userId, app.id);
        const earlier = stored && 'grant' in stored && sameAccount(stored.grant, account) ? stored.grant : undefined;
        const now = clock();
        const base: Grant = {
          userId,
          appId: app.id,
          accessToken: answer.accessToken,
          // A provider may give none the second time; a grant that was refused has none worth keeping.
          refreshToken: earlier?.trouble?.kind === 'reconnect_needed' ? undefined : earlier?.refreshToken,
          idToken: undefined,
          scopes: [...scopes],
          account,
          obtainedAt: now,
          expiresAt: undefined,
          connectedAt: earlier?.connectedAt ?? now,
          trouble: undefined,
          refresh: undefined,
        };
        const grant = withTokens(base, answer, now, app.accessTokenLifetimeSeconds);
        // A refresh may write in between: then what it wrote is read again, and replaced.
        if (await grants.save(grant, stored?.version ?? 0)) break;
      }
      events.connectionMade({ userId, app: app.id, scopes: answer.scopes ?? scopes });
    },

    async end(userId, app) {
      // First here, so that a refresh that is under way cannot bring it back; then at the provider, and there the tokens
      // that were deleted: those of a refresh that came in between are newer than what was read before (R43).
      let stored: StoredGrant | undefined;
      do {
        stored = await grants.load(userId, app.id);
        if (!stored) return undefined;
      } while (!(await grants.remove(userId, app.id, stored.version)));
      const revocation = 'grant' in stored ? await revoke(provider, app, stored.grant) : 'unconfirmed';
      events.connectionRemoved({ userId, app: app.id, revocation });
      return revocation;
    },

    async idToken(userId, appId) {
      return (await opened(userId, appId))?.idToken;
    },
  };
}

function sameAccount(grant: Grant, account: Grant['account']): boolean {
  // Where the provider names nobody, it may be anybody's.
  return account.subject !== undefined && grant.account.subject === account.subject;
}

/** The refresh token ends the whole grant at most providers; where there is none the access token is all that can be revoked. */
function revoke(provider: ProviderClient, app: ConnectedApp, grant: Grant): Promise<RevocationOutcome> {
  return grant.refreshToken
    ? provider.revoke(app, grant.refreshToken, 'refresh_token')
    : provider.revoke(app, grant.accessToken, 'access_token');
}
