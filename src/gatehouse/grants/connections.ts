/** Creates the connections of users after a consent, lists them with their health, and ends them. */

import type { By, Events, Origin } from '../../shared/observability/events.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { ProviderReply, RevocationOutcome } from '../../shared/provider/provider-reply.ts';
import type { SignInDemand } from '../../shared/provider/sign-in-demand.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import { keys } from '../../shared/storage/keys.ts';
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import type { Write } from '../../shared/storage/store.ts';
import { isIssuedFor, registrationOf } from '../connected-apps/registration.ts';
import { CONFIRM_TIMEOUT_MS, removeConfirmed, saveConfirmed, undoWrite } from './confirmed-writes.ts';
import type { ConnectLinks } from './connect-links.ts';
import { type Connection, connectionOfGrant } from './connection.ts';
import { newConnectionId } from './connection-ids.ts';
import { type Consent, consentedGrant, isOtherAccount, needsConsent, sameAccount } from './consent.ts';
import { type Grant, mayNeedReconnect, revocationToken, type StoredGrant } from './grant.ts';
import type { GrantReading, GrantStore } from './grant-store.ts';
import type { PendingRevocation, Revocations } from './revocations.ts';

/**
 * How the revocation ended. `pending`: the provider did not confirm it, and it will be retried. `unconfirmed`: it
 * cannot be requested, because the grant cannot be read, or its app no longer exists or has moved to another provider.
 */
export type DisconnectResult = RevocationOutcome | 'pending';

export interface Disconnected {
  /** The id of the connection; undefined if its grant could not be read. */
  id: string | undefined;
  revocation: DisconnectResult;
  /** The provider's response, if it was called. */
  reply?: ProviderReply | undefined;
}

/** How a connection is ended. `by`: undefined if its own user ends it. */
export interface EndedBy {
  by?: By | undefined;
  /** True if the audit trail already has an entry for it. */
  audited?: boolean | undefined;
  origin?: Origin | undefined;
  /** Ends only the connection with this id. If `id` is undefined, ends only a connection that cannot be read. */
  only?: { id: string | undefined } | undefined;
}

/**
 * `writes`: conditions that refuse the write once nothing may be stored for the user any longer
 * (`UserStore.conditionFor`), and further writes. `beside`: a parallel write, as for `GrantStore.save`.
 */
interface WritesOfUser {
  writes: readonly Write[];
  beside?: readonly Write[];
}

/** `Refusal`: the reasons for which `writesOfUser` may refuse. */
interface ConnectRequest<Refusal extends 'disabled' | 'gone'> extends Consent {
  origin?: Origin | undefined;
  /** A read of the grant that was started with the request. */
  prefetched?: GrantReading | undefined;
  /** The id of the connect link that the connection uses up. */
  link?: string | undefined;
  /**
   * Called before each write. Returns what must be written together with it, or why nothing may be stored for the user.
   */
  writesOfUser: (isFirst: boolean) => Promise<WritesOfUser | Refusal>;
}

/** `app_gone`: the app was deleted, or changed its registration, in the meantime. */
export type ConnectResult<Refusal extends 'disabled' | 'gone' = 'disabled' | 'gone'> =
  | 'connected'
  | 'link_ended'
  | 'app_gone'
  | `user_${Refusal}`;

const PENDING: { outcome: DisconnectResult; reply?: ProviderReply | undefined } = { outcome: 'pending' };

export interface Connections {
  /** Starts the read that `connect` needs. */
  prefetch(userId: string, appId: string): GrantReading;

  find(userId: string, appId: string): Promise<Connection | undefined>;
  findById(id: string): Promise<{ userId: string; connection: Connection } | undefined>;

  /** Deletes the ids of connections. The connections stay, but are found only by user and app. */
  dropIds(connections: readonly Connection[]): Promise<void>;

  list(userId: string): Promise<Connection[]>;

  /** Like `needsConsent` of `consent.ts`, for the stored grant. */
  needsConsent(
    userId: string | undefined,
    app: ConnectedApp,
    scopes: readonly string[],
    isConnecting: boolean,
  ): Promise<boolean>;

  /** Returns what the platform demands of the user's next sign-in for this connection. */
  demandOf(userId: string, app: ConnectedApp): Promise<SignInDemand | undefined>;

  /** True if the user's connection to the app is of another account, where both are known. */
  isOfOtherAccount(userId: string, app: ConnectedApp, account: Grant['account']): Promise<boolean>;

  /**
   * Stores the tokens of a code exchange, and replaces an earlier grant of the same user and app. Stores nothing if the
   * user, the app or the connect link no longer exists: the caller must then discard the tokens.
   */
  connect<Refusal extends 'disabled' | 'gone'>(request: ConnectRequest<Refusal>): Promise<ConnectResult<Refusal>>;

  /**
   * Revokes tokens that were not stored, without waiting for the provider. If the user has a connection to the same
   * app, the tokens are left to expire, since revoking one token of a user and client ends all of them at most
   * providers (RFC 7009 section 2.1).
   * @param account the account that the tokens are for, if it is known. `id`: the user of that account, whose
   *   connection must not end either
   * @param options `isErased`: true if the user is being deleted, along with the connection
   */
  discard(
    userId: string,
    app: ConnectedApp,
    response: TokenResponse,
    account?: Grant['account'] & { id?: string },
    options?: { isErased?: boolean },
  ): Promise<void>;

  /**
   * Deletes the grant and revokes it at the provider, if its app is still registered there. Returns undefined if there
   * was no grant, or if it was of another connection than `by.only` names.
   * @param signal as for `revocations.attempt`
   * @param app the app that revokes; pass it if it was just deleted
   */
  end(
    userId: string,
    appId: string,
    by?: EndedBy,
    signal?: AbortSignal,
    app?: ConnectedApp,
  ): Promise<Disconnected | undefined>;

  /** Returns the revocations of this user that the provider has not confirmed yet. */
  pendingRevocations(userId: string): Promise<PendingRevocation[]>;
}

export function createConnections(parts: {
  grants: GrantStore;
  revocations: Pick<Revocations, 'plan' | 'cancel' | 'attempt' | 'pendingOf' | 'revokeUnowned'>;
  links: Pick<ConnectLinks, 'isOpen'>;
  findApp: (id: string) => ConnectedApp | undefined;
  /** Whether the app still exists with a registration whose tokens may be sent to the same places. */
  isRegistered: (app: ConnectedApp) => Promise<boolean>;
  /** The interval of checks; 0 for none. */
  checkSeconds: number;
  events: Events;
  clock: () => number;
}): Connections {
  const { grants, revocations, links, findApp, isRegistered, checkSeconds, events, clock } = parts;

  const toConnection = (appId: string, stored: StoredGrant, lastUsedAt: number | undefined): Connection =>
    connectionOfGrant(appId, stored, { app: findApp(appId), lastUsedAt, now: clock(), checkSeconds });

  /**
   * Revokes a replaced grant of another account. A grant of the same account is not revoked: most providers keep one
   * grant per user and client, and revoking any of its tokens would end the new ones too (RFC 7009 section 2.1).
   */
  const revokeReplaced = async (app: ConnectedApp, replaced: Grant, account: Grant['account']) => {
    const { userId } = replaced;
    if (!isOtherAccount(app, replaced, account)) return;
    const { id: connection, registration } = replaced;
    const { token, hint } = revocationToken(replaced);
    const request = { userId, appId: app.id, connection, registration, token, hint };
    const revocation = await retryWhileUnavailable(() => revocations.plan(request), CONFIRM_TIMEOUT_MS).catch(
      () => undefined,
    );
    // The new connection does not depend on this revocation.
    if (revocation !== undefined) await revocations.attempt(app, userId, revocation).catch(() => undefined);
    else await revocations.revokeUnowned(app, token, hint).catch(() => undefined);
  };

  const find = async (userId: string, appId: string): Promise<Connection | undefined> => {
    const [stored, lastUsedAt] = await Promise.all([grants.loadStored(userId, appId), grants.lastUse(userId, appId)]);
    return stored && toConnection(appId, stored, lastUsedAt);
  };

  /** Returns the grant, if it is for the app as it is registered now. */
  const readGrant = async (userId: string, app: ConnectedApp): Promise<Grant | undefined> => {
    const stored = await grants.loadStored(userId, app.id);
    return stored && 'grant' in stored && isIssuedFor(stored.grant.registration, app) ? stored.grant : undefined;
  };

  return {
    prefetch: grants.prefetch,
    find,

    async findById(id) {
      const listed = await grants.findById(id);
      const connection = listed && (await find(listed.userId, listed.appId));
      return listed && connection?.id === id ? { userId: listed.userId, connection } : undefined;
    },

    async dropIds(connections) {
      for (const { id } of connections) if (id !== undefined) await grants.dropId(id);
    },

    async list(userId) {
      const listed = await grants.list(userId);
      return listed.map(({ appId, stored, lastUsedAt }) => toConnection(appId, stored, lastUsedAt));
    },

    async needsConsent(userId, app, scopes, isConnecting) {
      const stored = userId === undefined ? undefined : await grants.load(userId, app);
      return needsConsent(stored && 'grant' in stored ? stored.grant : undefined, scopes, isConnecting);
    },

    async demandOf(userId, app) {
      const grant = await readGrant(userId, app);
      return grant?.demand;
    },

    async isOfOtherAccount(userId, app, account) {
      const grant = await readGrant(userId, app);
      return grant !== undefined && isOtherAccount(app, grant, account);
    },

    async connect({ origin, prefetched, link, writesOfUser, ...consent }) {
      const { userId, app, response, scopes, account } = consent;
      const ticketKeys = link === undefined ? [] : [keys.connectTicket(userId, link)];
      const newId = newConnectionId();
      let connection = newId;
      let replaced: Grant | undefined;
      let isFirst = true;
      let stored = await grants.loadStored(userId, app.id, prefetched);
      for (;;) {
        const storedGrant = stored && 'grant' in stored ? stored.grant : undefined;
        // A grant of another registration passes nothing on, and the present provider is not called to revoke its
        // tokens.
        replaced = storedGrant && isIssuedFor(storedGrant.registration, app) ? storedGrant : undefined;
        // The app may have moved while the user was at the earlier provider, and the user may have connected the moved
        // app since.
        if (storedGrant && !replaced && !(await isRegistered(app))) return 'app_gone';
        const earlier = replaced && sameAccount(app, replaced, account) ? replaced : undefined;
        const ifVersion = stored?.version ?? 0;
        const userWrites = await writesOfUser(isFirst);
        if (typeof userWrites === 'string') return `user_${userWrites}`;
        const { beside = [] } = userWrites;
        const writes = [...userWrites.writes, ...ticketKeys.flatMap((key) => [{ exists: key }, { delete: key }])];
        const grant = consentedGrant(consent, earlier, newId, clock());
        connection = grant.id;
        const version = await saveConfirmed(grants, grant, ifVersion, { writes, beside });
        if (version !== undefined) {
          // The app's record is in another slot, so it is read after the write. A deletion of the app looks for
          // connections later.
          if (await retryWhileUnavailable(() => isRegistered(app), CONFIRM_TIMEOUT_MS)) break;
          // The earlier grant is restored: an app that returns to the apps file has its connections back.
          await retryWhileUnavailable(async () => {
            const currentWrites = await writesOfUser(false);
            const conditions = typeof currentWrites === 'string' ? undefined : currentWrites.writes;
            await undoWrite(grants, grant, stored, version, conditions);
          }, CONFIRM_TIMEOUT_MS);
          return 'app_gone';
        }
        if (link !== undefined && !(await links.isOpen(userId, link))) return 'link_ended';
        isFirst = false;
        // A refresh may have written in between: its grant is loaded and replaced.
        stored = await grants.loadStored(userId, app.id);
      }
      const ids = { userId, app: app.id, connection };
      events.connectionCreated({ ...ids, scopes: response.scopes ?? scopes, link, origin });
      if (!replaced) return 'connected';
      if (mayNeedReconnect(replaced)) events.connectionRecovered({ ...ids, origin });
      await revokeReplaced(app, replaced, account);
      return 'connected';
    },

    async discard(userId, app, response, account = {}, { isErased = false } = {}) {
      for (const user of new Set([userId, account.id ?? userId])) {
        const stored = await grants.loadStored(user, app.id);
        if (!stored || (isErased && user === userId)) continue;
        if ('unreadable' in stored) return;
        // Revoking these tokens does not end a grant of another registration or account.
        const { grant } = stored;
        if (isIssuedFor(grant.registration, app) && !isOtherAccount(app, grant, account)) return;
      }
      const request = { userId, appId: app.id, registration: registrationOf(app), ...revocationToken(response) };
      const revocation = await revocations.plan(request);
      // Not awaited: a planned revocation is retried later.
      void revocations.attempt(app, userId, revocation).catch(() => undefined);
    },

    async end(userId, appId, { only, ...context } = {}, signal, app = findApp(appId)) {
      // The grant is deleted first, so that a refresh in flight cannot restore it. The token is revoked only if the
      // version that was read was deleted: otherwise a refresh has stored newer tokens, and those must be revoked
      // (R43).
      for (;;) {
        const stored = await grants.loadStored(userId, appId);
        if (!stored) return undefined;
        const { version: grantVersion } = stored;
        const grant = 'grant' in stored ? stored.grant : undefined;
        // The user has connected again in the meantime.
        if (only && only.id !== grant?.id) return undefined;
        const plannedId =
          app && grant && isIssuedFor(grant.registration, app)
            ? await revocations.plan({
                userId,
                appId,
                connection: grant.id,
                grantVersion,
                registration: grant.registration,
                ...revocationToken(grant),
              })
            : undefined;
        if (await removeConfirmed(grants, userId, appId, grantVersion)) {
          // The connection has ended, whether or not the revocation succeeds.
          const result =
            app && plannedId !== undefined
              ? await revocations.attempt(app, userId, plannedId, signal).catch(() => PENDING)
              : undefined;
          const { outcome: revocation = 'unconfirmed', reply } = result ?? {};
          const id = grant?.id;
          events.connectionRemoved({ userId, app: appId, connection: id, revocation, reply, ...context });
          return { id, revocation, reply };
        }
        if (plannedId !== undefined) await revocations.cancel(userId, plannedId);
      }
    },

    pendingRevocations: revocations.pendingOf,
  };
}
