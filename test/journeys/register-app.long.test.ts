/** An app is registered, checked and tried in a real browser with few clicks, with and without scripts. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { CLIENT_SECRET, type TestSite } from '../support/gatehouse.ts';
import { checkOnAllScreens, completeProviderSignIn, navigateBy } from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';

/** The console error of a form with faults. Others are not allowed. */
const FAULTY_FORM = /Failed to load resource: the server responded with a status of 400/;
const MAX_CLICKS = 5;

const openPage = useBrowser();
let site: TestSite;
beforeEach(async () => {
  site = await startDocumentedSite({ env: { ADMIN_APP: 'platform' } });
});
afterEach(() => site?.close());

test.each([
  ['with scripts', true],
  ['without scripts', false],
])(
  '%s: registers an app in at most five clicks from the overview, then tries a sign-in',
  async (name, javaScriptEnabled) => {
    const page = await openPage({ javaScriptEnabled }, FAULTY_FORM);
    const look = (step: string) => (javaScriptEnabled ? checkOnAllScreens(page, `register-${step}`) : undefined);
    let clicks = 0;
    const click = async (words: string) => {
      clicks += 1;
      const exactly = new RegExp(`^\\s*${RegExp.escape(words)}\\s*$`);
      await navigateBy(page, () => page.locator('a, button').filter({ hasText: exactly }).first().click());
    };
    await page.goto(`${site.url}/sign-in?app=platform`);
    await completeProviderSignIn(page, site, 'admin@example.test');
    await page.goto(`${site.url}/admin`);

    await click('Apps');
    await click('Register an app');
    await look('provider');
    await page.getByLabel('Issuer', { exact: true }).fill(`${site.sandbox.issuer}/`);
    await page.getByLabel('Name', { exact: true }).fill(`Second ${name}`);
    await page.getByLabel('ID', { exact: true }).fill('second');
    await click('Continue');
    await look('other-issuer');
    // This click is needed only after a wrong issuer.
    await click(`Use ${site.sandbox.issuer}`);
    await look('registration');
    expect(await page.getByText(`${site.url}/oauth/callback/second`, { exact: true }).first().isVisible()).toBe(true);
    await page.getByLabel('Client ID', { exact: true }).fill('test-second');
    await page.getByLabel('Client secret', { exact: true }).fill(CLIENT_SECRET);
    // This choice is optional.
    await page.getByLabel('All users of the provider').check();
    await click('Register app');
    expect(clicks).toBeLessThanOrEqual(MAX_CLICKS);
    await look('check');
    expect(await page.getByText('The app is registered.').isVisible()).toBe(true);
    expect(await page.getByText(/^No problems found/).isVisible()).toBe(true);

    await click('Try a sign-in');
    await completeProviderSignIn(page, site, 'admin@example.test');
    expect(page.url()).toContain(`${site.url}/admin/sign-ins/`);
    expect(await page.getByRole('heading', { name: 'The trial worked' }).isVisible()).toBe(true);
    await look('trial');
    await click('Back to the check');
  },
);
