/** R146 in two browsers, with the back/forward cache on: two administrators change one app, and nothing is lost. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowserWithBackCache, useBrowser } from '../support/browser.ts';
import { CLIENT_SECRET, sandboxApp, startSite, type TestSite } from '../support/gatehouse.ts';
import { navigateBy, signInWithBrowser } from '../support/journey.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../support/send-request.ts';
import { createAdminToken } from '../support/terminal.ts';
import { LONG_TIMEOUT } from '../support/until.ts';

const openPage = useBrowser(launchBrowserWithBackCache);
let site: TestSite;
let headers: Record<string, string>;
beforeAll(async () => {
  site = await startSite({ env: { ADMIN_CLAIM: 'sub', ADMIN_VALUES: 'sbx-00u1,sbx-00u3' } });
  headers = { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${await createAdminToken(site)}` };
  const body = JSON.stringify(sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, signIn: undefined }));
  const created = await sendRequest(`${site.url}/admin/api/connected-apps`, { method: 'POST', headers, body });
  expect(created.status).toBe(201);
});
afterAll(() => site?.close());

const settings = () => `${site.url}/admin/connected-apps/second/settings`;
const readApp = async () =>
  JSON.parse((await sendRequest(`${site.url}/admin/api/connected-apps/second`, { headers })).body);
const save = (page: Page) => navigateBy(page, () => page.locator('#name').press('Enter'));

async function openSettings(login: string): Promise<Page> {
  const page = await openPage({}, /status of 409/);
  await signInWithBrowser(page, site, login);
  await page.goto(settings());
  return page;
}

test('R146 two administrators edit one app in two browsers, and nothing is lost', async () => {
  const ada = await openSettings('admin@example.test');
  const uma = await openSettings('user@example.test');
  await uma.locator('#name').fill('Of Uma');
  await save(uma);

  // Different fields: both are kept, and Ada is told.
  await ada.locator('#threadPath').fill('/of/ada');
  await save(ada);
  await ada.getByText(/Kept as Uma Okafor changed it at \d\d:\d\d UTC: Name\./).waitFor();
  expect(await readApp()).toMatchObject({ name: 'Of Uma', threadPath: '/of/ada' });

  // The same field: Ada sees the other value, in the field that has the focus, before she replaces it.
  await uma.goto(settings());
  await uma.locator('#name').fill('Again of Uma');
  await save(uma);
  await ada.locator('#name').fill('Of Ada');
  await save(ada);
  await ada.locator('#name-fault', { hasText: 'Uma Okafor changed “Name” to “Again of Uma”' }).waitFor();
  expect(await ada.evaluate('document.activeElement.id')).toBe('name');
  expect(await readApp()).toMatchObject({ name: 'Again of Uma' });
  await save(ada);
  expect(await readApp()).toMatchObject({ name: 'Of Ada', threadPath: '/of/ada' });
});

test("R146 one's own save and Back is no conflict", async () => {
  const ada = await openSettings('admin@example.test');
  await ada.locator('#name').fill('First');
  await save(ada);
  await ada.goBack({ waitUntil: 'commit' });
  await expect.poll(() => ada.locator('#name').inputValue().catch(String), LONG_TIMEOUT).toBe('First');
  await ada.locator('#name').fill('Second');
  await save(ada);
  await ada.getByText('Saved. The change').waitFor();
  expect(await readApp()).toMatchObject({ name: 'Second' });
});
