/** A user in a browser connects an app that declares resources, and a service gets a token for only one of them. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess } from '../gatehouse/grants/storage-access.ts';
import { createAdministrator, exchange } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { sandboxApp, startSite, type TestSite } from '../support/gatehouse.ts';
import { signInWithBrowser, userIdOf } from '../support/journey.ts';
import { ACCEPT_JSON, sendRequest } from '../support/send-request.ts';
import { advanceClock, resetClock } from '../support/test-clock.ts';

const REPORTS = 'urn:example:reports';

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite({
    apps: (urls) => [sandboxApp(urls, 'platform', { resources: [urls.sandbox.platformUrl, REPORTS] })],
  });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  resetClock();
  await storage.close();
  await site.close();
});

test('R112 a token for the platform works there, a token for reports does not, and the connection stays', async () => {
  const page = await openPage();
  await signInWithBrowser(page, site);
  const userId = await userIdOf(page, site);
  const { token } = await (await createAdministrator(site, storage)).createRelayToken({ assertUser: true });
  const expectThread = async () => {
    await page.goto(`${site.url}/`);
    expect(await page.locator('main').innerText()).toContain('Spring launch');
  };
  await expectThread();
  const { accessToken: storedToken, scopes } = await storage.readGrant(userId);
  expect(scopes).toEqual(expect.arrayContaining(['openid', 'offline_access', 'platform_read_only']));

  const subject = { subject_token: userId, subject_token_type: 'urn:gatehouse:token-type:user' };
  const statusAt = async (resource: string) => {
    const response = await exchange(site, token, { ...subject, resource });
    const accessToken = String(JSON.parse(response.body).access_token);
    expect([response.status, accessToken === storedToken]).toEqual([200, false]);
    const headers = { ...ACCEPT_JSON, authorization: `Bearer ${accessToken}` };
    return (await sendRequest(`${site.sandbox.platformUrl}/1/threads/current`, { headers })).status;
  };
  expect(await statusAt(REPORTS)).toBe(401);
  expect(await statusAt(site.sandbox.platformUrl)).toBe(200);

  advanceClock(600);
  await expectThread();
  expect((await storage.readGrant(userId)).accessToken).not.toBe(storedToken);
});
