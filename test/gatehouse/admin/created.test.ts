/** R88 the audit trail has the creation of each object by its id, so its creator can be found. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { createAdminToken } from '../../support/terminal.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let apiToken: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 }, env: { ADMIN_APP: 'platform' } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const { agent } = await signIn(site);
  // The sandbox's platform takes any access token as an API token.
  apiToken = (await storage.readGrant((await sessionOf(site, agent)).userId)).accessToken;
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
const relayToken = { scopes: ['threads:read'], apps: ['platform'], users: 'all', networks: [], assertUser: false };

test.each([
  ['admin-tokens', 'admin_token', () => ({ name: 'Made', scope: 'read', expiresAt }), 'Made'],
  ['relay-tokens', 'relay_token', () => ({ ...relayToken, name: 'Made', expiresAt }), 'Made'],
  ['service-accounts', 'service_account', () => ({ name: 'Made', app: 'platform', apiToken }), 'Made'],
  ['webhooks', 'webhook', () => ({ url: `${site.sandbox.platformUrl}/hook`, events: ['connection.created'] }), 'http'],
  ['connected-apps', 'connected_app', () => sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET }), ''],
] as const)('R88 %s', async (resource, kind, body, name) => {
  const created = await admin.call('POST', `/${resource}`, body());
  expect(created.status).toBe(201);

  const { json } = await admin.call('GET', `/audit?event=${kind}.created&target=${created.json.id}`);
  expect(json.items).toMatchObject([
    { target: { kind, id: created.json.id, name: expect.stringContaining(name) }, actor: { kind: 'admin_token' } },
  ]);
});

test('R88 an admin token created by the command', async () => {
  const id = (await createAdminToken(site)).slice('gtha_'.length, 'gtha_'.length + 11);
  const { json } = await admin.call('GET', `/audit?event=admin_token.created&target=${id}`);
  expect(json.items).toMatchObject([{ target: { id, name: 'of a test' }, actor: { kind: 'operator' } }]);
});
