/** A service sees the state of a connection while its user revokes access in a browser and reconnects. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess } from '../gatehouse/grants/storage-access.ts';
import { type Administrator, bearer, codeOf, createAdministrator, relayThread } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import type { TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy, signInWithBrowser, userIdOf } from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';
import { sendRequest } from '../support/send-request.ts';

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
beforeAll(async () => {
  site = await startDocumentedSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

test('R109 a service sees active, then reconnect_needed with a connect URL, then active, and never a token', async () => {
  const page = await openPage();
  await signInWithBrowser(page, site);
  const userId = await userIdOf(page, site);
  const { token } = await admin.createRelayToken({ scopes: ['threads:read', 'connections:read'], assertUser: true });
  const bodies: string[] = [];
  const connection = async () => {
    const response = await sendRequest(`${site.url}/relay/connections?user=${userId}`, { headers: bearer(token) });
    bodies.push(response.body);
    return JSON.parse(response.body).items[0];
  };
  const thread = () => relayThread(site, token, { 'gatehouse-user': userId });
  const secrets: (string | undefined)[] = [];
  const collectSecrets = async () => {
    const { accessToken, refreshToken } = await storage.readGrant(userId);
    secrets.push(accessToken, refreshToken);
  };

  expect(await connection()).toMatchObject({ health: 'active', cause: null, connectUrl: null });
  await collectSecrets();
  expect((await thread()).status).toBe(200);

  await page.goto(`${site.sandbox.issuer}/account`);
  await navigateBy(page, () => page.getByRole('button', { name: 'Revoke access' }).click());
  // The service is refused after the access token has expired.
  await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1 }));
  const refused = await thread();
  expect([refused.status, codeOf(refused)]).toEqual([403, 'reconnect_needed']);
  const broken = await connection();
  expect(broken).toMatchObject({ userId, app: 'platform', health: 'reconnect_needed', cause: 'grant_refused' });

  await page.goto(broken.connectUrl);
  await navigateBy(page, () => page.getByRole('button', { name: 'Reconnect with these permissions' }).click());
  await completeProviderSignIn(page, site);
  expect(await connection()).toMatchObject({ health: 'active', cause: null, connectUrl: null });
  expect((await thread()).status).toBe(200);
  await collectSecrets();

  expect(new Set(secrets).size).toBe(4);
  for (const secret of secrets) expect(bodies.join()).not.toContain(secret);
});
