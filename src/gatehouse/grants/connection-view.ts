/** Converts a connection to JSON, and to a view for pages. */
import { z } from 'zod';
import type { ConnectionView } from '../../shared/pages/page-data.ts';
import { allowedApiBaseUrl } from '../../shared/provider/api-base-url.ts';
import { type ConnectedApp, isUsable } from '../../shared/provider/connected-app.ts';
import type { ProviderReply } from '../../shared/provider/provider-reply.ts';
import { isoOrNull, isoTime } from '../../shared/time.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { Connection } from './connection.ts';
import type { Connections, Disconnected } from './connections.ts';
import { OFFLINE } from './consent.ts';
import { missingScopes, requestedScopes } from './missing-scopes.ts';
import { FAILURE_WORDS, type FailureCause, failureText } from './refresh-failure.ts';

/** The provider's response to a revocation. */
export const providerResponseSchema = z
  .object({
    status: z.int().optional().describe('status of the response'),
    error: z.string().optional().describe('its OAuth error code, or why there was no response'),
  })
  .nullable()
  .describe('the last response of the provider; null if it was not called');

const connectionId = z
  .string()
  .nullable()
  .describe('stays the same while account and registration do; null if the record of the connection cannot be read');

/** The fields of a disconnection's result in JSON. */
export const disconnectedFields = {
  id: connectionId,
  revocation: z
    .enum(['revoked', 'unsupported', 'unconfirmed', 'pending'])
    .describe('a pending revocation is retried until the provider confirms it'),
  providerResponse: providerResponseSchema,
};

export function providerResponseJson(reply: ProviderReply | undefined): z.output<typeof providerResponseSchema> {
  return reply ? { status: reply.status, error: reply.error } : null;
}

export function disconnectedJson({ id, revocation, reply }: Disconnected) {
  return { id: id ?? null, revocation, providerResponse: providerResponseJson(reply) };
}

/** A connection in `GET /connections`. */
export const connectionSchema = z.object({
  id: connectionId,
  app: z.string(),
  appName: z.string(),
  account: z
    .string()
    .nullable()
    .describe('a text to show: e-mail address, name or subject at the provider; it can change, and is no identifier'),
  health: z.enum(['active', 'expiring', 'unverified', 'reconnect_needed']),
  scopes: z.array(z.string()).readonly(),
  missingScopes: z
    .array(z.string())
    .readonly()
    .describe('scopes of the app that were neither requested nor granted; the user can add them by reconnecting'),
  stepUpRequired: z
    .boolean()
    .describe('the platform demanded a stronger or newer sign-in: the user meets it by reconnecting'),
  cause: z.enum(Object.keys(FAILURE_WORDS) as FailureCause[]).nullable(),
  checkedAt: z.iso
    .datetime()
    .nullable()
    .describe('when the provider last issued tokens for it, or ended it; null if it never did'),
  notCheckedSince: z.iso
    .datetime()
    .nullable()
    .describe(
      'when it last worked, if no call, refresh or check has succeeded for two check intervals: it may not work now',
    ),
  lastUsedAt: z.iso.datetime().nullable(),
  apiBaseUrl: z.string().nullable().describe('where calls with this connection go; null for an app without an API'),
  connectUrl: z.string(),
});

export function connectionJson(
  connection: Connection,
  app: ConnectedApp | undefined,
  publicHref: string,
): z.output<typeof connectionSchema> {
  return {
    id: connection.id ?? null,
    app: connection.app,
    appName: app?.name ?? connection.app,
    account: accountName(connection) ?? null,
    health: connection.health,
    scopes: connection.scopes,
    missingScopes: missingScopes(app, connection),
    stepUpRequired: connection.needsStepUp === true,
    cause: connection.cause ?? null,
    checkedAt: isoOrNull(connection.checkedAt),
    notCheckedSince: isoOrNull(connection.notCheckedSince),
    lastUsedAt: isoOrNull(connection.lastUsedAt),
    apiBaseUrl: (app && apiBaseUrlOf(app, connection)) ?? null,
    connectUrl: `${publicHref}/connections/${connection.app}`,
  };
}

/**
 * Returns the view of a connection for pages; without a connection, the scopes that connecting would request.
 * @param pendingSince when the user disconnected, if the revocation is still pending
 * @param neededScopes scopes that the user must allow, even if they were requested before
 */
export function connectionView(
  app: ConnectedApp,
  connection: Connection | undefined,
  publicHref: string,
  pendingSince?: number,
  neededScopes: readonly string[] = [],
): ConnectionView {
  const unusable = app.disabled ? DISABLED : isUsable(app, publicHref) ? undefined : NOT_REGISTERED;
  const base = { id: app.id, name: app.name, unusable, revocationPendingSince: isoTime(pendingSince) };
  const choices = choicesOf(app, connection);
  if (!connection) return { ...base, health: 'not_connected', scopes: app.scopes, choices };
  const { health, scopes, connectedAt, checkedAt, notCheckedSince, lastUsedAt } = connection;
  return {
    ...base,
    health,
    account: accountName(connection),
    cause: causeText(connection),
    needsStepUp: connection.needsStepUp && unusable === undefined,
    scopes,
    choices,
    more: unusable === undefined ? moreScopes(app, connection, neededScopes) : undefined,
    connectedAt: isoTime(connectedAt),
    checkedAt: isoTime(checkedAt),
    notCheckedSince: isoTime(notCheckedSince),
    lastUsedAt: isoTime(lastUsedAt),
    apiBaseUrl: apiBaseUrlOf(app, connection),
  };
}

function causeText({ health, cause, notCheckedSince }: Connection): string | undefined {
  if (notCheckedSince !== undefined) return NOT_CHECKED;
  // While the access token works, a failed refresh needs no attention.
  return cause && (health === 'unverified' || health === 'reconnect_needed') ? failureText(cause) : undefined;
}

function apiBaseUrlOf(app: ConnectedApp, { apiBaseUrl }: Connection): string | undefined {
  return allowedApiBaseUrl(app, apiBaseUrl) ?? app.apiBaseUrl;
}

export function accountName({ account }: Pick<Connection, 'account'>): string | undefined {
  return account.email ?? account.name ?? account.subject ?? account.accountId;
}

const NOT_CHECKED =
  'It has not been used or checked for a while, so it may no longer work. The next use will check it.';
const DISABLED = 'An administrator has disabled this app. It cannot be used for now.';
const NOT_REGISTERED = 'The callback URL of this app is not in its registration. An administrator must add it.';

/**
 * Returns the scopes to choose from. Those requested before are ticked, even if they were not granted: the provider may
 * grant them under other names, or leave them out of its response.
 */
function choicesOf({ scopes }: ConnectedApp, connection: Connection | undefined): ConnectionView['choices'] {
  const requested = connection ? requestedScopes(scopes, connection) : scopes;
  const isNew = (scope: string) => !requested.includes(scope);
  const isTicked = (scope: string) => !isNew(scope) || scope === OFFLINE;
  // Without `openid`, a form without a tick would request nothing.
  const areAllTicked = !scopes.some((scope) => scope === 'openid' || isTicked(scope));
  return scopes
    .filter((scope) => scope !== 'openid')
    .map((scope) => ({ scope, ticked: areAllTicked || isTicked(scope), isNew: isNew(scope) }));
}

/**
 * Returns the needed scopes, or else the missing ones that the user did not decline, and the scopes of a request that
 * adds them.
 */
function moreScopes(
  { scopes }: ConnectedApp,
  connection: Connection,
  neededScopes: readonly string[],
): ConnectionView['more'] {
  const { declinedScopes = [] } = connection;
  const needed = scopes.filter((scope) => neededScopes.includes(scope));
  const missing = missingScopes({ scopes }, connection).filter((scope) => !declinedScopes.includes(scope));
  const more = needed.length > 0 ? needed : missing;
  if (more.length === 0) return undefined;
  const requested = requestedScopes(scopes, connection);
  return { scopes: more, request: scopes.filter((scope) => requested.includes(scope) || more.includes(scope)) };
}

/** Returns a view for each app that the user may connect or has connected; those that are connected come first. */
export async function connectionViews(
  apps: CurrentApps,
  connections: Connections,
  userId: string,
  publicHref: string,
): Promise<ConnectionView[]> {
  const connected = new Map((await connections.list(userId)).map((connection) => [connection.app, connection]));
  const pending = new Map((await connections.pendingRevocations(userId)).map(({ app, since }) => [app, since]));
  const connectedApps = apps.list().filter(({ id }) => connected.has(id));
  const otherApps = apps.list().filter(({ id, disabled }) => !disabled && !connected.has(id));
  return [...connectedApps, ...otherApps].map((app) => ({
    ...connectionView(app, connected.get(app.id), publicHref, pending.get(app.id)),
    name: apps.nameOf(app.id),
  }));
}
