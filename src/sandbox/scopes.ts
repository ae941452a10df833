/** Owns the scopes of the sandbox: which claims each one opens, and what it means to the person who is asked. */

export const READ_SCOPE = 'platform_read_only';
export const FULL_SCOPE = 'platform_full_access';

const MEANINGS: Readonly<Record<string, string>> = {
  openid: 'Know that it is you who signs in',
  profile: 'See your name and the groups you belong to',
  email: 'See your e-mail address',
  groups: 'See the groups you belong to',
  [READ_SCOPE]: 'Read your documents, spreadsheets and chats on the platform',
  [FULL_SCOPE]: 'Read, create, change and delete your documents, spreadsheets and chats on the platform',
  offline_access: 'Keep this access while you are away, until you or the app end it',
};

export const SCOPES: readonly string[] = Object.keys(MEANINGS);

/** Groups come with `profile` as well, as with most company directories: an app need not know our own scope for them. */
export const CLAIMS: Readonly<Record<string, readonly string[]>> = {
  openid: ['sub', 'acr', 'amr'],
  profile: ['name', 'given_name', 'family_name', 'preferred_username', 'groups'],
  email: ['email', 'email_verified'],
  groups: ['groups'],
};

/** One sentence for each scope asked for that there is, in the order of the list above. */
export function meaningsOf(scope: string): string[] {
  const asked = new Set(scope.split(' '));
  return Object.entries(MEANINGS)
    .filter(([name]) => asked.has(name))
    .map(([, meaning]) => meaning);
}

/** Every scope with its sentence, for a list to choose from. */
export function describedScopes(): { name: string; meaning: string }[] {
  return Object.entries(MEANINGS).map(([name, meaning]) => ({ name, meaning }));
}
