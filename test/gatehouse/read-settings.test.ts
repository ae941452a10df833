/** Warnings of a start and of `config check` about administrators. */
import { expect, test } from 'vitest';
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
