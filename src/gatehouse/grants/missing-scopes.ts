/** Finds the scopes of the app that a connection lacks, and announces them once. */

import type { Events } from '../../shared/observability/events.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { ConnectionIndex } from './connection-index.ts';
import { OFFLINE } from './consent.ts';
import type { StoredGrant } from './grant.ts';
import { type Grant, isUnchecked } from './grant.ts';
import type { GrantStore } from './grant-store.ts';

/** A provider may leave these out of its response. */
const OFTEN_UNNAMED = ['openid', OFFLINE];

interface Scopes {
  /** The granted scopes. */
  scopes: readonly string[];
  requestedScopes?: readonly string[] | undefined;
}

/**
 * Returns the requested scopes. For an imported grant, returns the granted ones if the provider names scopes as the app
 * does, otherwise those of the app.
 */
export function requestedScopes(
  registered: readonly string[],
  { requestedScopes: requested, scopes: granted }: Scopes,
): readonly string[] {
  if (requested) return requested;
  return granted.length > 0 && granted.every((scope) => registered.includes(scope)) ? granted : registered;
}

/**
 * Returns the scopes of the app that were neither requested nor granted: they were added to the app later, or the user
 * chose fewer.
 */
export function missingScopes(app: Pick<ConnectedApp, 'scopes'> | undefined, connection: Scopes): string[] {
  const { scopes: granted, requestedScopes: requested } = connection;
  const { scopes = [] } = app ?? {};
  const presentScopes = new Set([
    ...requestedScopes(scopes, connection),
    ...granted,
    ...(requested ? [] : OFTEN_UNNAMED),
  ]);
  return scopes.filter((scope) => !presentScopes.has(scope));
}

/** True if a working grant lacks a scope that its user did not decline and that was not announced. */
function lacksUnannouncedScope({ scopes }: ConnectedApp, grant: Grant): boolean {
  const { requestedScopes: requested = [], declinedScopes = [], announcedScopes = [], failure } = grant;
  // This runs at every use, and almost every connection has all scopes, so the cheapest check comes first.
  if (scopes.every((scope) => requested.includes(scope))) return false;
  if (failure?.kind === 'reconnect_needed' || isUnchecked(grant)) return false;
  return missingScopes({ scopes }, grant).some(
    (scope) => !declinedScopes.includes(scope) && !announcedScopes.includes(scope),
  );
}

/** Counting more connections could delay other requests. */
const MAX_COUNTED = 1_000;
const BATCH = 100;

export interface MissingScopes {
  /**
   * Counts connections that would lack one of the added scopes. `exact` is false if the app has more than 1,000
   * connections: only the newest 1,000 are counted.
   * @param scopes the scopes of the app, including the added ones
   */
  count(appId: string, scopes: string[], added: readonly string[]): Promise<{ count: number; exact: boolean }>;

  /**
   * Announces once the scopes that a connection newly lacks: the write that records them succeeds in only one process.
   * Never rejects; the next use or check retries.
   */
  announce(app: ConnectedApp, stored: StoredGrant | undefined): Promise<void>;
}

export function createMissingScopes(parts: {
  grants: Pick<GrantStore, 'loadStored' | 'save'>;
  index: Pick<ConnectionIndex, 'page'>;
  events: Pick<Events, 'scopesMissing'>;
}): MissingScopes {
  const { grants, index, events } = parts;

  return {
    async count(appId, scopes, added) {
      const lacks = (stored: StoredGrant | undefined) =>
        stored && 'grant' in stored && missingScopes({ scopes }, stored.grant).some((scope) => added.includes(scope));
      let count = 0;
      let after: string | undefined;
      for (let read = 0; read < MAX_COUNTED; read += BATCH) {
        const { items, next } = await index.page({ appId, limit: BATCH, after });
        count += (await Promise.all(items.map(({ userId }) => grants.loadStored(userId, appId)))).filter(lacks).length;
        if (next === undefined) return { count, exact: true };
        after = next;
      }
      return { count, exact: false };
    },

    async announce(app, stored) {
      if (!stored || 'unreadable' in stored || !lacksUnannouncedScope(app, stored.grant)) return;
      const { grant, version } = stored;
      // A write during a refresh would keep the new refresh token from being saved to the journal.
      if (grant.refresh) return;
      const scopes = missingScopes(app, grant);
      const announcedScopes = [...new Set([...(grant.announcedScopes ?? []), ...scopes])];
      const saved = await grants.save({ ...grant, announcedScopes }, version).catch(() => undefined);
      if (saved === undefined) return;
      events.scopesMissing({ userId: grant.userId, app: app.id, connection: grant.id, scopes });
    },
  };
}
