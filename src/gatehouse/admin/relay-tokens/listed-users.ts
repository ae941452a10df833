/** The users that a relay token lists: entered by e-mail address or id, shown with their names. */
import { AppError } from '../../../shared/errors.ts';
import { SUBJECT_ID } from '../../relay/policy.ts';
import type { UserStore } from '../../users/user-store.ts';
import { type NamedUser, userNamed } from '../named-user.ts';
import { type Owner, ownerView } from '../users/view.ts';

/** Searches that run at the same time. */
const BATCH = 50;
/** More are shown by id alone. */
const MAX_NAMED = 50;

export interface ShownUser {
  id: string;
  name: string | null;
  email: string | null;
  state: 'active' | 'disabled' | 'unknown';
}

/**
 * The ids of what was typed, each once.
 * @throws AppError `invalid_request` with a fault of the field `listed` for each entry that names no single user
 */
export async function idsOfTyped(users: Pick<UserStore, 'page'>, typed: readonly string[]): Promise<string[]> {
  const named: NamedUser[] = [];
  for (let at = 0; at < typed.length; at += BATCH) {
    named.push(...(await Promise.all(typed.slice(at, at + BATCH).map((text) => userNamed(users, text)))));
  }
  const judged = named.map((one) => ('id' in one && !SUBJECT_ID.test(one.id) ? { fault: NO_USER } : one));
  const faults = judged.flatMap((one, at) =>
    'fault' in one ? [{ pointer: `#/listed/${at}`, rule: 'unknown_user', detail: one.fault }] : [],
  );
  if (faults.length > 0) throw new AppError('invalid_request', { detail: NO_USER, faults });
  return [...new Set(judged.flatMap((one) => ('id' in one ? [one.id] : [])))];
}

const NO_USER = 'Enter e-mail addresses or ids of users.';

/** The first of them with their names. */
export function namedUsers(users: Pick<UserStore, 'find'>, ids: readonly string[]): Promise<ShownUser[]> {
  return Promise.all(
    ids.slice(0, MAX_NAMED).map(async (id) => {
      const user = await users.find(id);
      const state = user === undefined ? 'unknown' : user.disabledAt === undefined ? 'active' : 'disabled';
      return { ...ownerView((user ?? { id }) satisfies Owner), state };
    }),
  );
}

/** For the form: e-mail addresses in place of ids, where each belongs to that user alone. */
export async function typedOf(users: Pick<UserStore, 'find' | 'page'>, ids: readonly string[]): Promise<string[]> {
  const first = await Promise.all(
    ids.slice(0, MAX_NAMED).map(async (id) => {
      const email = (await users.find(id))?.email;
      if (email === undefined || !/^[^\s,]+@[^\s,]+$/.test(email)) return id;
      const named = await userNamed(users, email);
      return 'id' in named && named.id === id ? email : id;
    }),
  );
  return [...first, ...ids.slice(MAX_NAMED)];
}
