/** Warnings and faults of a start and of `config check` about administrators, and about rules for users. */
import { describe, expect, test } from 'vitest';
import { readSettings } from '../../src/gatehouse/read-settings.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';

const app = (id: string, signIn?: object) => ({
  ...{ id, name: id, issuer: `https://${id}.test`, clientId: id, scopes: ['openid'], signIn },
  ...{ tokenEndpointAuthMethod: 'none', callbackUrls: [`https://gatehouse.test/oauth/callback/${id}`] },
});

function warningsWith(apps: object[], settings: Record<string, string> = {}): readonly string[] {
  const env = {
    PUBLIC_URL: 'https://gatehouse.test',
    SESSION_SECRETS: 'kQ8vX2mZ7pL4wR9tB3nC6yH1jD5fG0sA',
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: '/apps.json',
    ADMIN_VALUES: 'gatehouse-admins',
    ...settings,
  };
  return readSettings({ env, readFile: () => JSON.stringify(apps) }).warnings;
}

test('of two apps that users sign in with, one has to be named for administrators', () => {
  const everyone = { allow: 'everyone' };
  const two = [app('company', everyone), app('guests', everyone), app('files')];
  const warning =
    'no user is an administrator: set ADMIN_APP to the app that administrators sign in with (company, guests).';
  expect(warningsWith(two)).toEqual([warning]);
  expect(warningsWith(two, { ADMIN_APP: 'company' })).toEqual([]);
  expect(warningsWith([app('company', everyone), app('files')])).toEqual([]);
  expect(warningsWith([app('files')])).toEqual([]);
});

test('without ADMIN_VALUES, a start warns if users sign in', () => {
  const warning =
    'no user is an administrator: set ADMIN_VALUES to values of the claim “groups” that only administrators have.';
  expect(warningsWith([app('company', { allow: 'everyone' })], { ADMIN_VALUES: '' })).toEqual([warning]);
  expect(warningsWith([app('files')], { ADMIN_VALUES: '' })).toEqual([]);
});

test('R71 a callback URL that is nearly that of Gatehouse is refused at the start', () => {
  const nearly = { ...app('files'), callbackUrls: ['https://gatehouse.test/oauth/callback/Files'] };
  expect(() => warningsWith([nearly])).toThrow('Did you mean https://gatehouse.test/oauth/callback/files?');
});

describe('a claim', () => {
  const byClaim = (claim: string) => app('company', { allow: { claim, values: ['staff'] } });

  test('that is probably meant as a path is warned about, for administrators and for users', () => {
    expect(warningsWith([byClaim('a/b')], { ADMIN_CLAIM: 'realm_access.roles' })).toEqual([
      expect.stringMatching(/^ADMIN_CLAIM: “realm_access\.roles” is read as .*: \/realm_access\/roles\.$/),
      expect.stringMatching(/^the claim in signIn of the app "company": “a\/b” is read as .*: \/a\/b\.$/),
    ]);
    expect(warningsWith([byClaim('https://company.test/roles')], { ADMIN_CLAIM: '/realm_access/roles' })).toEqual([]);
  });

  test.each([
    ['preferred_username', 'ada@example.com', true],
    ['/user/email', 'ada@example.com', true],
    ['sub', 'auth0|1,ada@example.com', true],
    // Dex sends groups of Google Workspace with their addresses.
    ['groups', 'admins@example.com', false],
    ['https://example.com/roles', 'admins@example.com', false],
    ['email', 'ada@example.com', false],
    ['sub', '110169484474386276334', false],
  ])('R19 %s with %s, which need not be verified, is warned about: %s', (claim, values, isWarned) => {
    const warnings = warningsWith([byClaim('groups')], { ADMIN_CLAIM: claim, ADMIN_VALUES: values });
    expect(warnings.map((warning) => warning.startsWith('ADMIN_VALUES has e-mail addresses'))).toEqual(
      isWarned ? [true] : [],
    );
  });

  test.each(['gatehouse-admins', 'ada@example.com,@example.com', '*@example.com', 'ada@', 'Ada <ada@example.com>'])(
    'R19 email with %s, which is no address, is refused',
    (values) => {
      const start = () => warningsWith([byClaim('groups')], { ADMIN_CLAIM: 'email', ADMIN_VALUES: values });
      expect(start).toThrow('ADMIN_VALUES: with ADMIN_CLAIM=email, list the e-mail addresses of administrators');
    },
  );
});
