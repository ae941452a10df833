/** Endpoints that are set by hand beside discovery, which names others: the start, the page and the API say so. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { outlineOf } from '../../support/outline.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { createAdministrator } from '../relay/service.ts';

const OTHER = 'https://127.0.0.1:1';

let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite({
    env: { ADMIN_APP: 'platform' },
    apps: (at) => [
      sandboxApp(at, 'platform', { endpoints: { endSession: `${OTHER}/logout?logout_uri=a` } }),
      sandboxApp(at, 'second', { endpoints: { revocation: `${OTHER}/revoke`, jwks: `${OTHER}/keys` } }),
    ],
  });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

const warnings = () =>
  site
    .logs()
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => msg.includes('Discovery names other'));

test('the log of the start names them', async () => {
  await expect.poll(warnings).toHaveLength(1);
  const [{ level, msg }] = warnings();
  expect([level, msg]).toEqual([
    40,
    'The app "second": Discovery names other addresses than endpoints.revocation, endpoints.jwks, and those of discovery are used. Remove endpoints.revocation, endpoints.jwks. To use no discovery, set the authorization and the token endpoint by hand, without discoveryUrl.',
  ]);
});

test('the page of the app and the API name them', async () => {
  const admin = await createAdministrator(site, storage);
  const app = async (id: string) => (await admin.call('GET', `/connected-apps/${id}`)).json;
  expect(await app('second')).toMatchObject({ ineffectiveEndpoints: ['revocation', 'jwks'] });
  expect(await app('platform')).toMatchObject({ ineffectiveEndpoints: [] });

  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  const page = async (id: string) => outlineOf((await agent.get(`${site.url}/admin/connected-apps/${id}`)).body);
  expect(await page('second')).toContain('Discovery names other addresses than endpoints.revocation, endpoints.jwks');
  expect(await page('platform')).not.toContain('Discovery names other');
});
