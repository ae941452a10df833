/** Finds the user that an administrator names by id or by e-mail address. */
import type { UserStore } from '../users/user-store.ts';

/** A search lists users with exactly this address before those with a longer one that begins alike. */
const MAX_READ = 10;

export type NamedUser = { id: string } | { fault: string };

/**
 * An id is returned as it is, whether the user exists or not. An address has to belong to exactly one user.
 * @param named trimmed
 */
export async function userNamed(users: Pick<UserStore, 'page'>, named: string): Promise<NamedUser> {
  if (!named.includes('@')) return { id: named };
  const wanted = named.toLowerCase();
  const { users: beginning } = await users.page({ q: named, limit: MAX_READ });
  const [user, ...others] = beginning.filter(({ email }) => email?.toLowerCase() === wanted);
  if (!user) {
    return { fault: 'No user has this e-mail address. Users are known here once they have signed in.' };
  }
  if (others.length === 0) return { id: user.id };
  const ids = [user, ...others].map(({ id }) => id).join(', ');
  return { fault: `Several users have this e-mail address. Enter one of their ids: ${ids}.` };
}
