/** Derives the user id from issuer and subject. */
import { hashOf } from '../../shared/storage/keys.ts';

/** Returns the user's id, which never depends on the e-mail address (R19). */
export function userIdOf(issuer: string, subject: string): string {
  return `u${hashOf(JSON.stringify([issuer, subject])).slice(0, 22)}`;
}
