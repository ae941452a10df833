/** The JSON of users, the columns of their list, and ids that begin with the id of a user. */
import { z } from 'zod';
import { isoOrNull, isoTime } from '../../../shared/time.ts';
import type { User } from '../../users/user-store.ts';
import type { Columns } from '../columns.ts';

export const userJson = z.object({
  id: z.string(),
  issuer: z.string(),
  subject: z.string(),
  name: z.string().nullable(),
  email: z.string().nullable(),
  firstSignInAt: z.iso.datetime(),
  lastSignInAt: z.iso.datetime(),
  disabled: z.boolean().describe('signed out at the next request, and refused at sign-in'),
  disabledAt: z.iso.datetime().nullable(),
});

/** The user of a session or a connection. */
export const ownerJson = z.object({ id: z.string(), name: z.string().nullable(), email: z.string().nullable() });

export type UserView = z.output<typeof userJson>;
export type Owner = Pick<User, 'id' | 'name' | 'email'>;

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

export type UserRow = UserView & { isCurrentUser: boolean };

export const USER_COLUMNS: Columns<UserView, UserRow> = [
  {
    name: 'Name',
    csv: ({ name }) => name,
    cell({ id, subject, isCurrentUser, ...user }) {
      const name = displayName(user) ?? subject;
      return {
        path: `users/${encodeURIComponent(id)}`,
        text: name,
        title: name,
        remark: isCurrentUser ? 'you' : undefined,
      };
    },
  },
  {
    name: 'E-mail address',
    isBelow: true,
    csv: ({ email }) => email,
    cell: ({ email }) => ({ text: email ?? 'No e-mail address' }),
  },
  {
    name: 'ID',
    width: 'id',
    isWideOnly: true,
    csv: ({ id }) => id,
    cell: ({ id }) => ({ id, label: 'user ID' }),
  },
  {
    name: 'State',
    width: 'state',
    csv: ({ disabled }) => (disabled ? 'disabled' : 'active'),
    cell: ({ disabled }) =>
      disabled ? { status: 'bad', words: 'Disabled', icon: 'lock' } : { status: 'good', words: 'Active' },
  },
  {
    name: 'Last sign-in',
    width: 'time',
    label: 'Last sign-in',
    sorted: 'whole',
    csv: ({ lastSignInAt }) => lastSignInAt,
    cell: ({ lastSignInAt }) => ({ time: lastSignInAt }),
  },
  {
    name: 'First sign-in',
    width: 'time',
    label: 'First sign-in',
    isWideOnly: true,
    csv: ({ firstSignInAt }) => firstSignInAt,
    cell: ({ firstSignInAt }) => ({ time: firstSignInAt }),
  },
  { name: 'Issuer', csv: ({ issuer }) => issuer },
  { name: 'Subject', csv: ({ subject }) => subject },
];

export function ownerView({ id, name, email }: Owner): z.output<typeof ownerJson> {
  return { id, name: name ?? null, email: email ?? null };
}

/** Returns the cell that links to the user of a row. */
export function ownerCell({ id, name, email }: z.output<typeof ownerJson>) {
  const text = name ?? email ?? id;
  return { path: `users/${encodeURIComponent(id)}`, text, title: email ?? text };
}

/** Returns the name of a user for pages, or undefined if neither the name nor the address is known. */
export function displayName(
  user: { name?: string | null | undefined; email?: string | null | undefined } | undefined,
): string | undefined {
  return user?.name ?? user?.email ?? undefined;
}

/** Splits `USER.REST`, the id of a session or a connection. Both parts are empty if the id has another form. */
export function splitId(id: string): { userId: string; rest: string } {
  const dot = id.indexOf('.');
  return dot === -1 ? { userId: '', rest: '' } : { userId: id.slice(0, dot), rest: id.slice(dot + 1) };
}
