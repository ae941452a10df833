/** Confirmation questions before a user is signed out, disabled or deleted. */
import type { User } from '../../users/user-store.ts';
import type { Question } from '../confirmation.ts';
import { displayName } from './view.ts';

export type ConfirmedChange = 'sign-out' | 'disable' | 'delete';

/** Warnings if administrators change their own account. */
const WARNINGS: Record<ConfirmedChange, string> = {
  'sign-out': 'This is your own account: you will be signed out.',
  disable:
    'This is your own account. You will be signed out, and cannot sign in until another administrator enables you.',
  delete: 'This is your own account: you will be signed out.',
};

/** Returns the question before a change. @param connections the number of connections that a deletion revokes */
export function questionOf(
  change: ConfirmedChange,
  user: User,
  { isCurrentUser, connections }: { isCurrentUser: boolean; connections: number },
): Question {
  const name = displayName(user) ?? user.subject;
  const warning = isCurrentUser ? WARNINGS[change] : undefined;
  if (change === 'sign-out') {
    const consequences = ['All sessions of this user end at once. They can sign in again.'];
    return { action: 'Sign out', name, consequences, warning, verb: 'Sign out everywhere' };
  }
  if (change === 'disable') {
    const consequences = [
      'All sessions of this user end, services can no longer act for them, and they cannot sign in.',
      'Connections stay as they are. You can enable the user again.',
    ];
    return { action: 'Disable', name, consequences, warning, verb: 'Disable user' };
  }
  return {
    action: 'Delete all data about',
    name,
    consequences: [
      `This revokes and deletes ${connections} connection${connections === 1 ? '' : 's'}, ends every session, and deletes the name, the e-mail address and the sign-in records. It cannot be undone.`,
      'Audit entries stay until they expire. If the provider still lets this user in, they can sign in again as a new user. To prevent that, disable the user instead.',
    ],
    warning,
    verb: 'Delete user',
    typedText: user.email ?? name,
  };
}
