/** The scopes of the sandbox: their claims, and their descriptions for the consent page. */

export const READ_SCOPE = 'platform_read_only';
export const FULL_SCOPE = 'platform_full_access';

const MEANINGS: Readonly<Record<string, string>> = {
  openid: 'Know that it is you who signs in',
  profile: 'See your name and the groups you belong to',
  email: 'See your e-mail address',
  groups: 'See the groups you belong to',
  [READ_SCOPE]: 'Read your documents, spreadsheets and chats on the platform',
  [FULL_SCOPE]: 'Create documents and messages on the platform, and read all that you can read there',
  offline_access: 'Keep this access while you are away, until you or the app end it',
};

export const SCOPES: readonly string[] = Object.keys(MEANINGS);

/** `profile` includes groups, as with most company directories, so that apps need not know the scope `groups`. */
export const CLAIMS: Readonly<Record<string, readonly string[]>> = {
  openid: ['sub', 'acr', 'amr'],
  profile: ['name', 'given_name', 'family_name', 'preferred_username', 'groups'],
  email: ['email', 'email_verified'],
  groups: ['groups'],
};

/** Returns the descriptions of the requested scopes that exist. */
export function meaningsOf(scope: string): string[] {
  const requested = new Set(scope.split(' '));
  return Object.entries(MEANINGS)
    .filter(([name]) => requested.has(name))
    .map(([, meaning]) => meaning);
}

export function describedScopes(): { name: string; meaning: string }[] {
  return Object.entries(MEANINGS).map(([name, meaning]) => ({ name, meaning }));
}
