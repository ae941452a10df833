/** Owns how a connection is told: as JSON, and as what pages draw. For faces only. */
import type { AppStore } from '../connected-apps/app-store.ts';
import { type ConnectedApp, isUsable } from '../connected-apps/connected-app.ts';
import type { ConnectionView } from '../http/page-data.ts';
import type { Connection, Connections } from './connections.ts';
import { TROUBLE_WORDS } from './grant.ts';

/** What `GET /session` and `GET /connections` tell of a connection. */
export function connectionJson(connection: Connection, app: ConnectedApp | undefined, publicHref: string) {
  const { account, lastUsedAt, health } = connection;
  return {
    app: connection.app,
    name: app?.name ?? connection.app,
    account: account.email ?? account.name ?? account.subject ?? null,
    health,
    scopes: connection.scopes,
    cause: connection.cause ?? null,
    lastUsedAt: lastUsedAt === undefined ? null : new Date(lastUsedAt).toISOString(),
    connectUrl: `${publicHref}/connections/${connection.app}`,
  };
}

/** The same for pages; without a connection what connecting would ask for. */
export function connectionView(
  app: ConnectedApp,
  connection: Connection | undefined,
  publicHref: string,
): ConnectionView {
  const unusable = isUsable(app, publicHref)
    ? undefined
    : 'The callback URL of this app is not in its registration. An administrator has to add it.';
  const base = { id: app.id, name: app.name, unusable };
  if (!connection) return { ...base, health: 'not_connected', scopes: app.scopes };
  const { account, connectedAt, lastUsedAt, cause } = connection;
  return {
    ...base,
    health: connection.health,
    account: account.email ?? account.name ?? account.subject,
    cause: cause && TROUBLE_WORDS[cause],
    scopes: connection.scopes,
    connectedAt: connectedAt === undefined ? undefined : new Date(connectedAt).toISOString(),
    lastUsedAt: lastUsedAt === undefined ? undefined : new Date(lastUsedAt).toISOString(),
  };
}

/** Every app as this user sees it, those without a connection included. */
export async function connectionViews(
  apps: AppStore,
  connections: Connections,
  userId: string,
  publicHref: string,
): Promise<ConnectionView[]> {
  const made = new Map((await connections.list(userId)).map((connection) => [connection.app, connection]));
  return apps.list().map((app) => connectionView(app, made.get(app.id), publicHref));
}
