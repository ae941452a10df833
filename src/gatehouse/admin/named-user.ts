/** Finds a user by id or e-mail address. */
import type { UserStore } from '../users/user-store.ts';

/** The search lists users with exactly this address before users whose address only begins with it. */
const MAX_READ = 10;

export type NamedUser = { id: string } | { fault: string };

/**
 * Returns an id unchanged, even if there is no such user. An address must belong to exactly one user.
 * @param idOrEmail without spaces around it
 */
export async function findNamedUser(users: Pick<UserStore, 'page'>, idOrEmail: string): Promise<NamedUser> {
  if (!idOrEmail.includes('@')) return { id: idOrEmail };
  const address = idOrEmail.toLowerCase();
  const { users: matching } = await users.page({ q: idOrEmail, limit: MAX_READ });
  const [user, ...others] = matching.filter(({ email }) => email?.toLowerCase() === address);
  if (!user) {
    return { fault: 'No user has this e-mail address. Gatehouse knows users once they have signed in.' };
  }
  if (others.length === 0) return { id: user.id };
  const ids = [user, ...others].map(({ id }) => id).join(', ');
  return { fault: `Several users have this e-mail address. Enter one of their ids: ${ids}.` };
}
