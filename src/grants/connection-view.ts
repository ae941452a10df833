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
  pendingSince?: number,
): ConnectionView {
  const unusable = app.disabled ? DISABLED : isUsable(app, publicHref) ? undefined : NOT_REGISTERED;
  const revocationPendingSince = pendingSince === undefined ? undefined : new Date(pendingSince).toISOString();
  const base = { id: app.id, name: app.name, unusable, revocationPendingSince };
  const choices = choicesOf(app, connection);
  if (!connection) return { ...base, health: 'not_connected', scopes: app.scopes, choices };
  const { account, connectedAt, lastUsedAt, cause } = connection;
  return {
    ...base,
    health: connection.health,
    account: account.email ?? account.name ?? account.subject,
    cause: cause && TROUBLE_WORDS[cause],
    scopes: connection.scopes,
    choices,
    connectedAt: connectedAt === undefined ? undefined : new Date(connectedAt).toISOString(),
    lastUsedAt: lastUsedAt === undefined ? undefined : new Date(lastUsedAt).toISOString(),
  };
}

const DISABLED = 'An administrator has disabled this app: nothing is done with it for now.';
const NOT_REGISTERED = 'The callback URL of this app is not in its registration. An administrator has to add it.';

/** Who is not connected yet is offered everything. */
function choicesOf({ scopes }: ConnectedApp, connection: Connection | undefined): ConnectionView['choices'] {
  return scopes
    .filter((scope) => scope !== 'openid')
    .map((scope) => ({ scope, granted: connection === undefined || connection.scopes.includes(scope) }));
}

/** Every app as this user sees it, those without a connection included. */
export async function connectionViews(
  apps: AppStore,
  connections: Connections,
  userId: string,
  publicHref: string,
): Promise<ConnectionView[]> {
  const made = new Map((await connections.list(userId)).map((connection) => [connection.app, connection]));
  const pending = new Map((await connections.pendingRevocations(userId)).map(({ app, since }) => [app, since]));
  // What is disabled and was never connected is nobody's business.
  const shown = apps.list().filter((app) => !app.disabled || made.has(app.id));
  return shown.map((app) => connectionView(app, made.get(app.id), publicHref, pending.get(app.id)));
}
