/**
 * docs/administrators.md: each of its settings makes administrators of the right users of a simulated provider, and of
 * no others.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { emptyFolder } from '../../server/shown-steps.ts';
import { missingCurl, skipIfMissing } from '../../support/missing.ts';
import { startOperator } from '../../support/operator.ts';
import { type ProviderSite, startWithProvider } from '../../support/provider-site.ts';
import type { Json } from '../../support/providers/profile.ts';
import { sendRequest } from '../../support/send-request.ts';
import { bearer } from '../relay/service.ts';

const documentText = readFileSync(join(import.meta.dirname, '../../../docs/administrators.md'), 'utf8');
const block = (head: string) => {
  const [, content] = new RegExp(`^\`\`\`${head}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(documentText) ?? [];
  if (content === undefined) throw new Error(`The document has no block "${head}".`);
  return content;
};
const settings = (name: string): Record<string, string> =>
  Object.fromEntries(
    [...block(`sh ${name}`).matchAll(/^(\w+)=(.*)$/gm)].map(([, key = '', value = '']) => [key, value]),
  );

const signInAndOpenAdmin = async (site: ProviderSite, claims: Json) => {
  const { agent, session } = await site.signIn(claims);
  const { status } = await agent.get(`${site.url}/admin`);
  return { status, admin: (session.user as { admin: boolean } | undefined)?.admin };
};
const ADMINISTRATOR = { status: 200, admin: true };
const OTHER_USER = { status: 403, admin: false };

test.each<[preset: string, name: string, administrators: Json[], others: Json[]]>([
  [
    'keycloak',
    'keycloak',
    [{ realm_access: { roles: ['offline_access', 'gatehouse-admin'] } }],
    [{ resource_access: { gatehouse: { roles: ['gatehouse-admin'] } } }, { 'realm_access.roles': ['gatehouse-admin'] }],
  ],
  [
    'keycloak',
    'keycloak-groups',
    [{ groups: ['staff', 'gatehouse-admins'] }],
    // A realm role, and the full path of a group.
    [{ realm_access: { roles: ['gatehouse-admins'] } }, { groups: ['/gatehouse-admins'] }],
  ],
  ['okta', 'okta', [{ groups: ['gatehouse-admins'] }], [{ groups: ['Everyone'] }, {}]],
  ['entra', 'entra', [{ roles: ['Gatehouse.Admin'] }], [{ roles: ['gatehouse.admin'] }, {}]],
  ['google', 'sub', [{ sub: '110169484474386276334' }, { sub: '104837212300125637811' }], [{ sub: '1101694844743' }]],
  [
    'google',
    'google',
    [
      { email: 'ada@example.com', email_verified: true },
      { email: 'Bo@Example.com', email_verified: true },
    ],
    [
      { email: 'ada@example.com', email_verified: false },
      { email: 'ada@example.com', email_verified: 'true' },
      { email: 'ada@example.com' },
      { email: 'ada@example.com.example.org', email_verified: true },
    ],
  ],
  [
    'salesforce',
    'salesforce',
    [{ email: 'ada@example.com', email_verified: true }],
    [{ email: 'ada@example.com', email_verified: false }],
  ],
])('%s: the settings "%s" make administrators of the right users', async (preset, name, administrators, others) => {
  const site = await startWithProvider(preset, settings(name));
  for (const claims of administrators) expect(await signInAndOpenAdmin(site, claims)).toEqual(ADMINISTRATOR);
  for (const claims of others) expect(await signInAndOpenAdmin(site, claims)).toEqual(OTHER_USER);
});

test('at Google, only accounts of a Workspace may sign in', async () => {
  const site = await startWithProvider('google', settings('google'), JSON.parse(`{${block('json google')}}`));
  const ada = { email: 'ada@example.com', email_verified: true };
  expect(await signInAndOpenAdmin(site, { ...ada, hd: 'example.com' })).toEqual(ADMINISTRATOR);
  expect(await signInAndOpenAdmin(site, { email: 'cy@example.com', email_verified: true, hd: 'example.com' })).toEqual(
    OTHER_USER,
  );
  for (const claims of [{}, { hd: 'example.org' }])
    expect((await site.signIn({ ...ada, ...claims })).session.signedIn).toBe(false);
});

test('a session keeps the result of its sign-in', async () => {
  const { ADMIN_APP, ...others } = settings('settings');
  expect(ADMIN_APP).not.toBe('');
  const site = await startWithProvider('keycloak', others);
  const { agent, session } = await site.signIn({ groups: ['gatehouse-admins'] });
  expect(session.user).toMatchObject({ subject: 'person-1', admin: true });
  site.env.ADMIN_VALUES = 'others';
  await site.restart();
  expect((await agent.get(`${site.url}/admin`)).status).toBe(200);
  expect(await signInAndOpenAdmin(site, { groups: ['gatehouse-admins'] })).toEqual(OTHER_USER);
});

test('R88 without ADMIN_VALUES no user is an administrator, and /admin says so', async () => {
  const site = await startWithProvider('keycloak', { ADMIN_VALUES: '' });
  expect(await signInAndOpenAdmin(site, { groups: ['gatehouse-admins'] })).toEqual(OTHER_USER);
  const { agent } = await site.signIn({ groups: [''] });
  const { status, body } = await agent.get(`${site.url}/admin`);
  expect(status).toBe(403);
  expect(body).toContain('No administrators are configured.');
  expect(body).toContain('ADMIN_VALUES');
});

test('without any administrator, the commands of the document lead to the admin API', async (context) => {
  skipIfMissing(context, missingCurl);
  const site = await startWithProvider('okta', { ADMIN_VALUES: 'nobody' });
  expect(await signInAndOpenAdmin(site, { groups: ['gatehouse-admins'] })).toEqual(OTHER_USER);
  const operator = await startOperator(site, emptyFolder());
  onTestFinished(operator.close);
  const { status, stdout } = await operator.run(block('sh rescue'));
  expect(status, stdout).toBe(0);
  const [token = ''] = /gtha_\w+/.exec(stdout) ?? [];
  const read = async (path: string) => {
    const { status: readStatus, body } = await sendRequest(`${site.url}/admin/api/sign-ins${path}`, {
      headers: bearer(token),
    });
    expect(readStatus).toBe(200);
    return JSON.parse(body);
  };
  const { items } = await read('');
  expect(items).toMatchObject([{ outcome: 'signed_in' }]);
  const detail = 'no administrator: the claim “groups” has none of the values of the rule';
  expect((await read(`/${items[0].id}`)).steps).toContainEqual(expect.objectContaining({ name: 'permitted', detail }));
});
