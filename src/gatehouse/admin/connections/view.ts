/** JSON and columns of connections and pending revocations, and the progress of disconnecting all users of an app. */
import { z } from 'zod';
import { describeReply } from '../../../shared/provider/provider-reply.ts';
import { isoOrNull, isoTime } from '../../../shared/time.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { Connection } from '../../grants/connection.ts';
import {
  accountName,
  connectionSchema,
  providerResponseJson,
  providerResponseSchema,
} from '../../grants/connection-view.ts';
import type { DisconnectProgress } from '../../grants/disconnect-everyone.ts';
import { missingScopes } from '../../grants/missing-scopes.ts';
import { FAILURE_WORDS } from '../../grants/refresh-failure.ts';
import type { PendingRevocation } from '../../grants/revocations.ts';
import type { Columns } from '../columns.ts';
import { type Owner, ownerCell, ownerJson, ownerView } from '../users/view.ts';

declare module '../columns.ts' {
  interface CellViews {
    '/admin/connections/health': { connection: ConnectionRow };
  }
}

export const connectionJson = z.object({
  id: connectionSchema.shape.id,
  user: ownerJson,
  app: z.string(),
  appName: z.string().describe('followed by the id if several apps have this name'),
  account: connectionSchema.shape.account,
  health: connectionSchema.shape.health,
  cause: z.string().nullable(),
  causeText: z.string().nullable(),
  reason: z.string().nullable().describe('why a refresh failed: the error code of the provider, or a fixed word'),
  scopes: z.array(z.string()),
  missingScopes: connectionSchema.shape.missingScopes,
  connectedAt: z.iso.datetime().nullable(),
  checkedAt: connectionSchema.shape.checkedAt,
  notCheckedSince: connectionSchema.shape.notCheckedSince,
  lastUsedAt: z.iso.datetime().nullable(),
});

export const revocationJson = z.object({
  id: z.string(),
  userId: z.string(),
  app: z.string(),
  connection: z.string().nullable().describe('id of the connection that had the token; null if none had it'),
  since: z.iso.datetime(),
  attemptCount: z.int(),
  nextAt: z.iso.datetime(),
  providerResponse: providerResponseSchema,
  providerResponseText: z.string().nullable(),
});

export const progressJson = z.object({
  app: z.string(),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
  total: z.number().int(),
  done: z.number().int(),
  results: z.record(z.string(), z.int()).describe('the number of revocations by result'),
});

export type ConnectionRow = z.output<typeof connectionJson>;
export type RevocationView = z.output<typeof revocationJson>;
export type ProgressView = z.output<typeof progressJson>;
/** A revocation on a page. The names are undefined if the app or the user no longer exists. */
export type NamedRevocation = RevocationView & { appName?: string | undefined; userName?: string | undefined };

export function connectionView(
  connection: Connection,
  user: Owner,
  apps: Pick<CurrentApps, 'find' | 'nameOf'>,
): ConnectionRow {
  const { id, app, cause, reason, connectedAt, checkedAt, notCheckedSince, lastUsedAt, health, scopes } = connection;
  return {
    id: id ?? null,
    user: ownerView(user),
    app,
    appName: apps.nameOf(app),
    account: accountName(connection) ?? null,
    health,
    cause: cause ?? null,
    causeText: cause ? FAILURE_WORDS[cause] : null,
    reason: reason ?? null,
    scopes: [...scopes],
    missingScopes: missingScopes(apps.find(app), connection),
    connectedAt: isoOrNull(connectedAt),
    checkedAt: isoOrNull(checkedAt),
    notCheckedSince: isoOrNull(notCheckedSince),
    lastUsedAt: isoOrNull(lastUsedAt),
  };
}

export function revocationView(revocation: PendingRevocation): RevocationView {
  const { id, userId, app, connection, since, attemptCount, nextAt, reply } = revocation;
  return {
    id,
    userId,
    app,
    connection: connection ?? null,
    since: isoTime(since),
    attemptCount,
    nextAt: isoTime(nextAt),
    providerResponse: providerResponseJson(reply),
    providerResponseText: reply ? describeReply(reply) : null,
  };
}

export function progressView(progress: DisconnectProgress): ProgressView {
  const { app, startedAt, finishedAt, total, done, results } = progress;
  return {
    app,
    startedAt: isoTime(startedAt),
    finishedAt: isoOrNull(finishedAt),
    total,
    done,
    results: { ...results },
  };
}

/** The page of a connection, below `/admin`. One that cannot be read has no id. */
const pathOf = ({ id, user, app }: ConnectionRow) => `connections/${encodeURIComponent(id ?? `${user.id}.${app}`)}`;

const COMMON_COLUMNS: Columns<ConnectionRow> = [
  { name: 'ID', csv: ({ id }) => id },
  {
    name: 'Health',
    width: 'cause',
    isText: true,
    csv: ({ health }) => health,
    cell: (connection) => ({ view: '/admin/connections/health', data: { connection } }),
  },
  { name: 'Cause', csv: ({ cause }) => cause },
  {
    name: 'Account',
    isWideOnly: true,
    csv: ({ account }) => account,
    cell: ({ account }) => ({ text: account ?? '–' }),
  },
  { name: 'Scopes', csv: ({ scopes }) => scopes.join(' ') },
  { name: 'Missing scopes', csv: ({ missingScopes: missing }) => missing.join(' ') },
  { name: 'Connected', csv: ({ connectedAt }) => connectedAt },
  {
    name: 'Checked',
    width: 'ago',
    label: 'Checked',
    csv: ({ checkedAt }) => checkedAt,
    cell: ({ checkedAt }) => ({ time: checkedAt, fallback: 'Never' }),
  },
  {
    name: 'Last used',
    width: 'ago',
    label: 'Used',
    csv: ({ lastUsedAt }) => lastUsedAt,
    cell: ({ lastUsedAt }) => ({ time: lastUsedAt, fallback: 'Never' }),
  },
];

export const CONNECTION_COLUMNS: Columns<ConnectionRow> = [
  {
    name: 'User',
    csv: ({ user }) => user.name,
    cell: (connection) => ({ ...ownerCell(connection.user), path: pathOf(connection) }),
  },
  { name: 'E-mail address', csv: ({ user }) => user.email },
  { name: 'User ID', csv: ({ user }) => user.id },
  { name: 'App', isBelow: true, csv: ({ appName }) => appName, cell: ({ appName }) => ({ text: appName }) },
  ...COMMON_COLUMNS,
];

/** The columns on the page of a user. */
export const CONNECTION_COLUMNS_OF_USER: Columns<ConnectionRow> = [
  {
    name: 'App',
    cell: (connection) => ({ path: pathOf(connection), text: connection.appName, title: connection.appName }),
  },
  ...COMMON_COLUMNS.filter(({ cell }) => cell !== undefined),
];

export const REVOCATION_COLUMNS: Columns<NamedRevocation> = [
  { name: 'App', cell: ({ app, appName }) => ({ text: appName ?? app }) },
  {
    name: 'User',
    isBelow: true,
    cell: ({ userId, userName }) => ({
      view: '/admin/parts/user-link',
      data: { id: userId, name: userName },
      isCut: true,
    }),
  },
  { name: 'State', width: 'state', cell: () => ({ status: 'notice', words: 'Pending' }) },
  { name: 'Since', width: 'time', isWideOnly: true, label: 'Since', cell: ({ since }) => ({ time: since }) },
  {
    name: 'Attempts',
    width: 'time',
    isNumber: true,
    label: 'Attempts',
    cell: ({ attemptCount }) => ({ words: String(attemptCount) }),
  },
  { name: 'Last response', cell: ({ providerResponseText }) => ({ text: providerResponseText ?? '–' }) },
  { name: 'Next attempt', width: 'time', label: 'Next', cell: ({ nextAt }) => ({ time: nextAt }) },
];

/** The columns on the page of a user. */
export const REVOCATION_COLUMNS_OF_USER = REVOCATION_COLUMNS.filter(({ name }) => name !== 'User');
