/** What an administrator is asked before a user is signed out, disabled or deleted. */
import type { User } from '../../users/user-store.ts';
import type { Question } from '../confirmation.ts';
import { displayName } from './view.ts';

export type AskedChange = 'sign-out' | 'disable' | 'delete';

/** Of the administrator's own account. */
const OWN: Record<AskedChange, string> = {
  'sign-out': 'This is your own account: you will be signed out.',
  disable:
    'This is your own account. You will be signed out, and cannot sign in until another administrator enables you.',
  delete: 'This is your own account: you will be signed out.',
};

/** @param about `connections`: how many a deletion revokes */
export function questionOf(
  wanted: AskedChange,
  user: User,
  { isOwn, connections: count }: { isOwn: boolean; connections: number },
): Question {
  const name = displayName(user) ?? user.subject;
  const own = isOwn ? OWN[wanted] : undefined;
  if (wanted === 'sign-out') {
    const consequences = ['All sessions of this user end at once. They can sign in again.'];
    return { action: 'Sign out', name, consequences, own, verb: 'Sign out everywhere' };
  }
  if (wanted === 'disable') {
    const consequences = [
      'All sessions of this user end, services can no longer act for them, and they cannot sign in.',
      'Connections stay as they are. You can enable the user again.',
    ];
    return { action: 'Disable', name, consequences, own, verb: 'Disable user' };
  }
  return {
    action: 'Delete all data about',
    name,
    consequences: [
      `This revokes and deletes ${count} connection${count === 1 ? '' : 's'}, ends every session, and deletes the name, the e-mail address and the sign-in records. It cannot be undone.`,
      'Audit entries stay until they expire. If the provider still admits this user, they can sign in again as a new user. To prevent that, disable the user instead.',
    ],
    own,
    verb: 'Delete user',
    typed: user.email ?? name,
  };
}
