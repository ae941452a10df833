/** Administrators in a real browser: the form of an app checks input while typing, and pages fit a small phone. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { CLIENT_SECRET, type TestSite } from '../support/gatehouse.ts';
import { checkOnAllScreens, completeProviderSignIn, navigateBy } from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';

/** The console error of a form with faults. Others are not allowed. */
const FAULTY_FORM = /Failed to load resource: the server responded with a status of 400/;

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite();
});
afterAll(() => site?.close());

test('an app is registered, broken and repaired, using only the pages', async () => {
  const page = await openPage({ viewport: { width: 360, height: 800 } }, FAULTY_FORM);
  const look = (name: string) => checkOnAllScreens(page, `admin-${name}`);
  const save = () => navigateBy(page, () => page.locator('button[value=save]:not(.visually-hidden)').click());

  await page.goto(`${site.url}/sign-in`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  await page.locator('.site-nav-button > summary').click();
  await navigateBy(page, () => page.locator('.site-nav').getByRole('link', { name: 'Administration' }).click());
  await page.goto(`${site.url}/admin/connected-apps`);
  await look('connected-apps');
  await navigateBy(page, () => page.getByRole('link', { name: 'Register an app' }).click());
  await page.getByLabel('ID', { exact: true }).fill('second');
  await page.getByLabel('Name', { exact: true }).fill('Second <b>platform</b> \u202eright to left');
  await page.getByLabel('Issuer', { exact: true }).fill(site.sandbox.issuer);
  await look('register-provider');
  await navigateBy(page, () => page.getByRole('button', { name: 'Continue' }).click());
  await look('register');
  await page.getByText('More: callback URLs').click();

  // The input is checked while typing, before anything is sent.
  await page.getByRole('button', { name: 'Add callback URL' }).click();
  const secondUrl = page.getByLabel('Callback URL 2', { exact: true });
  await secondUrl.fill('https://*.example.com/cb');
  const wildcard = page.locator('#callbackUrl').getByText('Write out every callback URL');
  await wildcard.waitFor();
  await secondUrl.fill('https://Example.com:443/cb');
  await page.getByText('Browsers write this URL as https://example.com/cb').waitFor();
  await page.getByRole('button', { name: 'Use that URL' }).click();
  expect(await secondUrl.inputValue()).toBe('https://example.com/cb');
  await secondUrl.fill('https://*.example.com/cb');
  await wildcard.waitFor();
  await page.getByLabel('Client ID', { exact: true }).fill('test-second');
  await save();
  await look('faults');
  expect(await page.getByText('Nothing was saved').count()).toBe(1);
  await page.getByRole('button', { name: 'Remove Callback URL 2' }).click();
  await wildcard.waitFor({ state: 'detached' });
  await page.getByLabel('All users of the provider').check();
  await page.getByLabel('Client secret', { exact: true }).fill(CLIENT_SECRET);
  await save();
  expect(await page.getByText('The app is registered.').count()).toBe(1);
  await look('check');
  await page.goto(`${site.url}/admin/connected-apps/second/settings`);
  await look('connected-app');

  await page.getByLabel('Callback URL 1', { exact: true }).fill('https://elsewhere.example.com/cb');
  await save();
  await look('save-question');
  await navigateBy(page, () => page.getByRole('alert').getByRole('button', { name: 'Save' }).click());
  expect(await page.getByText('Add it here and at the provider').count()).toBe(1);
  await page.getByLabel('Callback URL 1', { exact: true }).fill(`${site.url}/oauth/callback/second`);
  await save();
  await page.goto(`${site.url}/sign-in?app=second`);
  await completeProviderSignIn(page, site, 'admin@example.test');

  for (const [path, name] of [
    ['admin/connected-apps/second', 'connected-app-overview'],
    ['admin/connected-apps/second/activity', 'connected-app-activity'],
    ['admin/connected-apps/platform', 'connected-app-of-the-file'],
    ['admin/connected-apps/platform/settings', 'connected-app-of-the-file-settings'],
    ['admin/register-app?preset=entra-tenants', 'preset'],
    ['admin/admin-tokens', 'admin-tokens'],
    ['admin/search?q=p', 'search'],
    ['docs', 'docs'],
  ] as const) {
    await page.goto(`${site.url}/sign-in?app=platform`);
    await completeProviderSignIn(page, site, 'admin@example.test');
    await page.goto(`${site.url}/${path}`);
    await look(name);
  }
});
