/** The JSON of sessions, and the columns of their lists. */
import type { Request } from 'express';
import { z } from 'zod';
import type { Session } from '../../../shared/sessions/session.ts';
import { isoTime } from '../../../shared/time.ts';
import type { Columns } from '../columns.ts';
import { type Owner, ownerCell, ownerJson, ownerView } from '../users/view.ts';

export const sessionJson = z.object({
  id: z.string(),
  user: ownerJson,
  browser: z.string().nullable().describe('in words'),
  address: z.string().nullable().describe('where it signed in from'),
  app: z.string().nullable().describe('the connected app that signed the user in'),
  startedAt: z.iso.datetime(),
  lastSeenAt: z.iso.datetime().describe('to the minute'),
});

export type SessionRow = z.output<typeof sessionJson>;
/** For a page. `own`: the session of the administrator who looks. */
export type OwnedSession = SessionRow & { own: boolean; appName: string | null };

export function isOwn({ context }: Request, { id }: SessionRow): boolean {
  return context.session !== undefined && id === `${context.session.user.id}.${context.session.ref}`;
}

export function withOwn(req: Request, session: SessionRow, appName: string | null): OwnedSession {
  return { ...session, own: isOwn(req, session), appName };
}

/** @param user as stored now; by default, as the session stored its user */
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
const remarkOf = ({ own }: OwnedSession) => (own ? 'this browser' : undefined);

const REST: Columns<SessionRow, OwnedSession> = [
  { name: 'App', cell: ({ appName }) => ({ text: appName ?? '–' }) },
  {
    name: 'Address',
    width: 'time',
    csv: ({ address }) => address,
    cell: ({ address }) => ({ text: address ?? '–' }),
  },
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
): Columns<SessionRow, OwnedSession> => [
  {
    name: 'User',
    csv: ({ user }) => user.name,
    cell: (session) => ({ ...ownerCell(session.user), remark: remarkOf(session) }),
  },
  { name: 'E-mail address', csv: ({ user }) => user.email },
  { name: 'User ID', csv: ({ user }) => user.id },
  { name: 'Browser', csv: ({ browser }) => browser, cell: (session) => ({ text: browserOf(session) }) },
  ...REST,
  // The export has it last.
  { name: 'App', csv: appNameOf },
];

/** On the page of their user. */
export const SESSION_COLUMNS_OF_USER: Columns<SessionRow, OwnedSession> = [
  {
    name: 'Browser',
    cell: (session) => ({ words: browserOf(session), title: browserOf(session), remark: remarkOf(session) }),
  },
  ...REST,
];
