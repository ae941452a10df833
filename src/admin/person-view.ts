/** Views of users, their sessions and their connections for the administration. */
import { z } from 'zod';
import type { AppStore } from '../connected-apps/app-store.ts';
import { describeReply } from '../connected-apps/provider-reply.ts';
import { connectionSchema, providerAnswer } from '../grants/connection-view.ts';
import type { Connection } from '../grants/connections.ts';
import { TROUBLE_WORDS } from '../grants/grant.ts';
import type { PendingRevocation } from '../grants/revocations.ts';
import type { Session } from '../sessions/session.ts';
import { isoOrNull, isoTime } from '../time.ts';
import type { User } from '../users/user-store.ts';

export const userAnswer = z.object({
  id: z.string(),
  issuer: z.string(),
  subject: z.string(),
  name: z.string().nullable(),
  email: z.string().nullable(),
  firstSignInAt: z.iso.datetime(),
  lastSignInAt: z.iso.datetime(),
  disabled: z.boolean().describe('out at the next request, and no new sign-in'),
  disabledAt: z.iso.datetime().nullable(),
});

export const personAnswer = z.object({ id: z.string(), name: z.string().nullable(), email: z.string().nullable() });

export const sessionAnswer = z.object({
  id: z.string(),
  user: personAnswer,
  browser: z.string().nullable().describe('in words'),
  address: z.string().nullable().describe('where it signed in from'),
  app: z.string().nullable().describe('the connected app that signed the user in'),
  startedAt: z.iso.datetime(),
  lastSeenAt: z.iso.datetime().describe('to the minute'),
});

export const connectionAnswer = z.object({
  id: z.string(),
  user: personAnswer,
  app: z.string(),
  appName: z.string(),
  account: z.string().nullable(),
  health: connectionSchema.shape.health,
  cause: z.string().nullable(),
  causeWords: z.string().nullable(),
  scopes: z.array(z.string()),
  connectedAt: z.iso.datetime().nullable(),
  lastUsedAt: z.iso.datetime().nullable(),
});

export const revocationAnswer = z.object({
  id: z.string(),
  user: z.string(),
  app: z.string(),
  since: z.iso.datetime(),
  attempts: z.number().int(),
  nextAt: z.iso.datetime(),
  provider: providerAnswer,
  providerWords: z.string().nullable(),
});

export type UserView = z.output<typeof userAnswer>;
export type SessionRow = z.output<typeof sessionAnswer>;
export type ConnectionRow = z.output<typeof connectionAnswer>;
export type RevocationRow = z.output<typeof revocationAnswer>;
/** As a page tells it: in names, where they are known still. */
export type NamedRevocation = RevocationRow & { appName?: string | undefined; who?: string | undefined };

export function userView({ disabledAt, firstSignInAt, lastSignInAt, name, email, ...user }: User): UserView {
  return {
    ...user,
    name: name ?? null,
    email: email ?? null,
    firstSignInAt: isoTime(firstSignInAt),
    lastSignInAt: isoTime(lastSignInAt),
    disabled: disabledAt !== undefined,
    disabledAt: isoOrNull(disabledAt),
  };
}

/** @param user as known now; without it as the session knows its user */
export function sessionRow(session: Session, user: Pick<User, 'id' | 'name' | 'email'> = session.user): SessionRow {
  const { ref, browser, address, app, createdAt, seenAt } = session;
  return {
    id: `${user.id}.${ref}`,
    user: { id: user.id, name: user.name ?? null, email: user.email ?? null },
    browser: browser ?? null,
    address: address ?? null,
    app: app ?? null,
    startedAt: isoTime(createdAt),
    lastSeenAt: isoTime(seenAt),
  };
}

export function connectionRow(
  connection: Connection,
  user: Pick<User, 'id' | 'name' | 'email'>,
  apps: Pick<AppStore, 'find'>,
): ConnectionRow {
  const { app, account, cause, connectedAt, lastUsedAt, health, scopes } = connection;
  return {
    id: `${user.id}.${app}`,
    user: { id: user.id, name: user.name ?? null, email: user.email ?? null },
    app,
    appName: apps.find(app)?.name ?? app,
    account: account.email ?? account.name ?? account.subject ?? null,
    health,
    cause: cause ?? null,
    causeWords: cause ? TROUBLE_WORDS[cause] : null,
    scopes: [...scopes],
    connectedAt: isoOrNull(connectedAt),
    lastUsedAt: isoOrNull(lastUsedAt),
  };
}

export function revocationRow({ id, userId, app, since, attempts, nextAt, said }: PendingRevocation): RevocationRow {
  const answered = { provider: said ?? null, providerWords: said ? describeReply(said) : null };
  return { id, user: userId, app, since: isoTime(since), attempts, nextAt: isoTime(nextAt), ...answered };
}

/** The parts of an id that names something of a user's: `USER.WHAT`. */
export function splitId(id: string): { userId: string; what: string } {
  const at = id.indexOf('.');
  return at === -1 ? { userId: '', what: '' } : { userId: id.slice(0, at), what: id.slice(at + 1) };
}
