/** Which scopes of its app a connection lacks, and the event that says so once. */

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
  /** Those that were granted. */
  scopes: readonly string[];
  requestedScopes?: readonly string[] | undefined;
}

/** Of an imported grant: what was granted, if the provider uses the app's own names for it. */
export function requestedScopes(
  registered: readonly string[],
  { requestedScopes: known, scopes: granted }: Scopes,
): readonly string[] {
  if (known) return known;
  return granted.length > 0 && granted.every((scope) => registered.includes(scope)) ? granted : registered;
}

/** The scopes of the app that were neither requested nor granted: it has got them since, or the user chose fewer. */
export function missingScopes(app: Pick<ConnectedApp, 'scopes'> | undefined, connection: Scopes): string[] {
  const { scopes: granted, requestedScopes: known } = connection;
  const { scopes = [] } = app ?? {};
  const asked = new Set([...requestedScopes(scopes, connection), ...granted, ...(known ? [] : OFTEN_UNNAMED)]);
  return scopes.filter((scope) => !asked.has(scope));
}

/** True for a working grant that lacks a scope which its user did not decline, and which was not announced. */
function isNews({ scopes }: ConnectedApp, grant: Grant): boolean {
  const { requestedScopes: known = [], declinedScopes = [], announcedScopes = [], failure } = grant;
  // Every use comes here, and almost every connection has all scopes.
  if (scopes.every((scope) => known.includes(scope))) return false;
  if (failure?.kind === 'reconnect_needed' || isUnchecked(grant)) return false;
  return missingScopes({ scopes }, grant).some(
    (one) => !declinedScopes.includes(one) && !announcedScopes.includes(one),
  );
}

/** A larger count could hold up other requests. */
const MAX_COUNTED = 1_000;
const BATCH = 100;

export interface MissingScopes {
  /**
   * Counts connections that would lack one of the added scopes. `exact` is false where the app has more than 1,000: then
   * these are among the newest 1,000.
   * @param scopes of the app, with those that are added
   */
  count(appId: string, scopes: string[], added: readonly string[]): Promise<{ count: number; exact: boolean }>;

  /**
   * Announces the scopes that a connection has come to lack: once, since the write of the grant that records it succeeds
   * in one process alone. Never rejects: the next use or check tries again.
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
        stored && 'grant' in stored && missingScopes({ scopes }, stored.grant).some((one) => added.includes(one));
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
      if (!stored || 'unreadable' in stored || !isNews(app, stored.grant)) return;
      const { grant, version } = stored;
      // A write during a refresh would keep the response's refresh token out of the journal.
      if (grant.refresh) return;
      const scopes = missingScopes(app, grant);
      const announcedScopes = [...new Set([...(grant.announcedScopes ?? []), ...scopes])];
      const saved = await grants.save({ ...grant, announcedScopes }, version).catch(() => undefined);
      if (saved === undefined) return;
      events.scopesMissing({ userId: grant.userId, app: app.id, connection: grant.id, scopes });
    },
  };
}
