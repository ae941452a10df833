/** The first two steps of registering an app in a real browser: a provider is found by its name, and all URLs are copied. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../../../support/browser.ts';
import { startSite, type TestSite } from '../../../support/gatehouse.ts';
import { completeProviderSignIn } from '../../../support/journey.ts';

/** The console error of a form with faults. Others are not allowed. */
const FAULTY_FORM = /Failed to load resource: the server responded with a status of 400/;

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site?.close());

async function openWizard(javaScriptEnabled = true): Promise<Page> {
  const permissions = ['clipboard-read', 'clipboard-write'];
  const page = await openPage({ javaScriptEnabled, permissions }, FAULTY_FORM);
  await page.goto(`${site.url}/sign-in`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/register-app`);
  return page;
}

const shownNames = (page: Page) => page.locator('.provider-names li:visible a').allTextContents();
const focused = (page: Page) =>
  page.evaluate('document.activeElement.getAttribute("aria-label") ?? document.activeElement.id');

test('a provider is found by its name, without a mouse, and all URLs are copied at once', async () => {
  const page = await openWizard();
  expect(await focused(page)).toBe('Search providers');
  expect((await shownNames(page)).length).toBeGreaterThan(10);

  await page.keyboard.type('micro');
  const entra = ['Microsoft Entra ID (one tenant)', 'Microsoft Entra ID (several tenants)'];
  expect(await shownNames(page)).toEqual(entra);
  // Two providers match, so Enter chooses none of them.
  await page.keyboard.press('Enter');
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('keyc');
  expect(await shownNames(page)).toEqual(['Keycloak']);
  await page.keyboard.press('Enter');
  await page.waitForURL('**/register-app?preset=keycloak');
  expect(await focused(page)).toBe('placeholder-0');

  // Nothing is registered: the metadata of the example cannot be read, so its endpoints are entered by hand.
  await page.getByRole('textbox', { name: /host/i }).fill(new URL(site.sandbox.issuer).host);
  await page.getByRole('textbox', { name: /realm/i }).fill('example');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Enter the endpoints by hand' }).click();
  const section = page.locator('section', { has: page.getByRole('heading', { name: 'Enter these at the provider' }) });
  expect(await section.textContent()).toContain(
    'Keycloak admin console › your realm › Clients › your client › Settings',
  );
  expect(await section.locator('dt').allTextContents()).toEqual([
    'Callback URL: Valid redirect URIs',
    'Post-logout redirect URL: Valid post logout redirect URIs',
    'Back-channel logout URL',
    'JWKS URL, if you authenticate by private_key_jwt',
  ]);
  await page.getByRole('button', { name: 'Copy all' }).click();
  await page.getByText('The list of URLs is copied.').waitFor({ state: 'attached' });
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
    [
      `Callback URL: ${site.url}/oauth/callback/keycloak`,
      `Post-logout redirect URL: ${site.url}/`,
      `Back-channel logout URL: ${site.url}/oauth/backchannel-logout/keycloak`,
      `JWKS URL, if you authenticate by private_key_jwt: ${site.url}/.well-known/jwks.json`,
    ].join('\n'),
  );
});

test('without scripts, every name is a link, and the page begins at its top', async () => {
  const page = await openWizard(false);
  expect(await page.getByRole('searchbox', { name: 'Search providers' }).count()).toBe(0);
  expect(await page.locator('#issuer').getAttribute('autofocus')).toBeNull();
  await page.getByRole('link', { name: 'Zoom' }).click();
  expect(page.url()).toBe(`${site.url}/admin/register-app?preset=zoom`);
});
