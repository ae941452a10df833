/** The JSON of sessions, and the columns of their lists. */
import type { Request } from 'express';
import { z } from 'zod';
import type { Session } from '../../../shared/sessions/session.ts';
import { isoTime } from '../../../shared/time.ts';
import type { Cell, Column, Columns } from '../columns.ts';
import { type Owner, ownerCell, ownerJson, ownerView } from '../users/view.ts';

export const sessionJson = z.object({
  id: z.string(),
  user: ownerJson,
  browser: z.string().nullable().describe('such as "Firefox on Windows"'),
  address: z.string().nullable().describe('the IP address of the sign-in'),
  app: z.string().nullable().describe('the connected app that signed the user in'),
  startedAt: z.iso.datetime(),
  lastSeenAt: z.iso.datetime().describe('to the minute'),
});

export type SessionRow = z.output<typeof sessionJson>;
/** A session on a page. `isCurrent` marks the session of the request. */
export type ListedSession = SessionRow & { isCurrent: boolean; appName: string | null };

export function isCurrentSession({ context }: Request, { id }: SessionRow): boolean {
  return context.session !== undefined && id === `${context.session.user.id}.${context.session.ref}`;
}

export function toListedSession(req: Request, session: SessionRow, appName: string | null): ListedSession {
  return { ...session, isCurrent: isCurrentSession(req, session), appName };
}

/** Returns a session as JSON. @param user the current record; by default, the copy in the session */
export function sessionView(session: Session, user: Owner = session.user): SessionRow {
  const { ref, browser, address, app, createdAt, seenAt } = session;
  return {
    id: `${user.id}.${ref}`,
    user: ownerView(user),
    browser: browser ?? null,
    address: address ?? null,
    app: app ?? null,
    startedAt: isoTime(createdAt),
    lastSeenAt: isoTime(seenAt),
  };
}

const browserOf = ({ browser }: SessionRow) => browser ?? 'Unknown browser';
const remarkOf = ({ isCurrent }: ListedSession) => (isCurrent ? 'this browser' : undefined);

const appCell = ({ appName }: ListedSession): Cell => ({ text: appName ?? '–' });

const ADDRESS: Column<SessionRow, ListedSession> = {
  name: 'Address',
  csv: ({ address }) => address,
  cell: ({ address }) => ({ text: address ?? '–' }),
};

const TIMES: Columns<SessionRow, ListedSession> = [
  {
    name: 'Signed in',
    width: 'time',
    label: 'Signed in',
    csv: ({ startedAt }) => startedAt,
    cell: ({ startedAt }) => ({ time: startedAt }),
  },
  {
    name: 'Last seen',
    width: 'time',
    label: 'Last seen',
    csv: ({ lastSeenAt }) => lastSeenAt,
    cell: ({ lastSeenAt }) => ({ time: lastSeenAt }),
  },
];

export const sessionColumns = (
  appNameOf: (session: SessionRow) => string | null,
): Columns<SessionRow, ListedSession> => [
  {
    name: 'User',
    csv: ({ user }) => user.name,
    cell: (session) => ({ ...ownerCell(session.user), remark: remarkOf(session) }),
  },
  // This column is only on the page. The export has the app as its last column.
  { name: 'App', isBelow: true, cell: appCell },
  { name: 'E-mail address', csv: ({ user }) => user.email },
  { name: 'User ID', csv: ({ user }) => user.id },
  { name: 'Browser', csv: ({ browser }) => browser, cell: (session) => ({ text: browserOf(session) }) },
  { ...ADDRESS, isBelow: true },
  ...TIMES,
  { name: 'App', csv: appNameOf },
];

/** The columns on the page of a user. */
export const SESSION_COLUMNS_OF_USER: Columns<SessionRow, ListedSession> = [
  {
    name: 'Browser',
    cell: (session) => ({ words: browserOf(session), title: browserOf(session), remark: remarkOf(session) }),
  },
  { ...ADDRESS, isBelow: true },
  { name: 'App', cell: appCell },
  ...TIMES,
];
