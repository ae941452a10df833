/** The users of a relay token: entered by e-mail address or id, shown with their names. */
import { AppError } from '../../../shared/errors.ts';
import { SUBJECT_ID } from '../../relay/policy.ts';
import type { UserStore } from '../../users/user-store.ts';
import { findNamedUser, type NamedUser } from '../named-user.ts';
import { type Owner, ownerView } from '../users/view.ts';

/** The number of searches that run at the same time. */
const BATCH = 50;
/** The number of users that are shown with their names. Further users are shown by their ids only. */
const MAX_NAMED = 50;

export interface ShownUser {
  id: string;
  name: string | null;
  email: string | null;
  state: 'active' | 'disabled' | 'unknown';
}

/**
 * Resolves entered ids and e-mail addresses to ids, without duplicates.
 * @throws AppError `invalid_request` with a fault of the field `listed` for each entry that does not name exactly one
 *   user
 */
export async function idsOfEntries(users: Pick<UserStore, 'page'>, entries: readonly string[]): Promise<string[]> {
  const results: NamedUser[] = [];
  for (let start = 0; start < entries.length; start += BATCH) {
    const batch = entries.slice(start, start + BATCH);
    results.push(...(await Promise.all(batch.map((entry) => findNamedUser(users, entry)))));
  }
  const checkedResults = results.map((result) =>
    'id' in result && !SUBJECT_ID.test(result.id) ? { fault: NO_USER } : result,
  );
  const faults = checkedResults.flatMap((result, index) =>
    'fault' in result ? [{ pointer: `#/listed/${index}`, rule: 'unknown_user', detail: result.fault }] : [],
  );
  if (faults.length > 0) throw new AppError('invalid_request', { detail: NO_USER, faults });
  return [...new Set(checkedResults.flatMap((result) => ('id' in result ? [result.id] : [])))];
}

const NO_USER = 'Enter e-mail addresses or ids of users.';

/** Reads the first users, with their names. */
export function namedUsers(users: Pick<UserStore, 'find'>, ids: readonly string[]): Promise<ShownUser[]> {
  return Promise.all(
    ids.slice(0, MAX_NAMED).map(async (id) => {
      const user = await users.find(id);
      const state = user === undefined ? 'unknown' : user.disabledAt === undefined ? 'active' : 'disabled';
      return { ...ownerView((user ?? { id }) satisfies Owner), state };
    }),
  );
}

/** Returns the entries of the form: e-mail addresses instead of ids, if no other user has the address. */
export async function entriesOf(users: Pick<UserStore, 'find' | 'page'>, ids: readonly string[]): Promise<string[]> {
  const firstEntries = await Promise.all(
    ids.slice(0, MAX_NAMED).map(async (id) => {
      const email = (await users.find(id))?.email;
      if (email === undefined || !/^[^\s,]+@[^\s,]+$/.test(email)) return id;
      const result = await findNamedUser(users, email);
      return 'id' in result && result.id === id ? email : id;
    }),
  );
  return [...firstEntries, ...ids.slice(MAX_NAMED)];
}
