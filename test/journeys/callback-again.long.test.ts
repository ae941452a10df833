/** R10, R64, R136 in Chromium: reloading, several first tabs, links that are loaded ahead, and forms that are sent late. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sessionCookieName } from '../../src/shared/sessions/browser-sessions.ts';
import { launchBrowserWithBackCache, useBrowser } from '../support/browser.ts';
import { startSite, type TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy, saveScreenshot, signInWithBrowser } from '../support/journey.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site?.close());

const textOf = (page: Page) => page.locator('body').innerText();

/** Cancels at the provider, which reports it as a denial. */
const denyConsent = (page: Page) => navigateBy(page, () => page.getByRole('button', { name: /Deny|Cancel/ }).click());

describe('R10 with the back/forward cache', () => {
  const openPage = useBrowser(launchBrowserWithBackCache);

  test('Back to the page of a denial shows it again, with its reference', async () => {
    const page = await openPage({}, /400|403/);
    await page.goto(`${site.url}/sign-in?return_to=/sessions`);
    await denyConsent(page);
    const reference = await page.locator('[data-copy-source]').innerText();
    await navigateBy(page, () => page.getByRole('link', { name: 'Try again' }).click());
    await page.goBack();
    await page.getByText('Consent was not given').first().waitFor();
    expect(await page.locator('[data-copy-source]').innerText()).toBe(reference);
  });

  test('Back to the provider and forward after a sign-in ends where the sign-in was to lead', async () => {
    const page = await openPage();
    const callbacks: string[] = [];
    page.on('request', (request) => request.url().includes('/oauth/callback/') && callbacks.push(request.url()));
    await page.goto(`${site.url}/sign-in?return_to=/connections`);
    await completeProviderSignIn(page, site);
    await page.goto(callbacks[0] ?? '');
    expect(page.url()).toBe(`${site.url}/connections`);
  });
});

describe('R10 in Chromium', () => {
  const openPage = useBrowser();

  test('a denial that is reloaded shows the same page and reference, and its "Try again" leads on', async () => {
    const page = await openPage({}, /400|403|401/);
    await page.goto(`${site.url}/sign-in?return_to=/sessions`);
    await denyConsent(page);
    const shown = await textOf(page);
    expect(shown).toContain('Consent was not given');
    const reference = await page.locator('[data-copy-source]').innerText();
    await page.reload();
    expect(await page.locator('[data-copy-source]').innerText()).toBe(reference);
    expect(await textOf(page)).toContain('Consent was not given');
    await saveScreenshot(page, 'denial-again');
    await navigateBy(page, () => page.getByRole('link', { name: 'Try again' }).click());
    await completeProviderSignIn(page, site);
    expect(page.url()).toBe(`${site.url}/sessions`);
  });

  test('a request that other tabs displaced leads to the start page, which says so', async () => {
    const page = await openPage();
    await page.goto(`${site.url}/sign-in`);
    for (let n = 0; n < 12; n += 1)
      await page.request.get(`${site.url}/sign-in`, { maxRedirects: 0, headers: { accept: 'text/html' } });
    await completeProviderSignIn(page, site);
    expect(page.url()).toBe(`${site.url}/?ended=no_longer_pending`);
    expect(await page.getByRole('alert').innerText()).toContain('You started more than 10 sign-ins in this browser');
    await saveScreenshot(page, 'displaced');
  });

  test('R64 ten tabs that are restored in a browser without cookies all sign in', async () => {
    const first = await openPage();
    const tabs = [first, ...(await Promise.all(Array.from({ length: 9 }, () => first.context().newPage())))];
    await Promise.all(tabs.map((tab, n) => tab.goto(`${site.url}/sign-in?return_to=/problems/not_found?tab=${n}`)));
    for (const tab of tabs) await completeProviderSignIn(tab, site);
    expect(tabs.map((tab) => tab.url())).toEqual(tabs.map((_tab, n) => `${site.url}/problems/not_found?tab=${n}`));
  });

  test('R136 a link to the sign-in that is loaded ahead has no effect, and works when it is clicked', async () => {
    const page = await openPage({}, /503/);
    const statuses: number[] = [];
    page.on('response', (response) => response.url().endsWith('/sign-in?ahead=1') && statuses.push(response.status()));
    await page.goto(`${site.url}/problems/not_found`);
    await page.evaluate(`(() => {
      const link = Object.assign(document.createElement('link'), { rel: 'prefetch', href: '/sign-in?ahead=1' });
      document.head.append(link);
      return new Promise((resolve) => { link.onload = link.onerror = resolve; });
    })()`);
    expect(statuses).toEqual([503]);
    expect((await page.context().cookies()).filter(({ name }) => name.includes('-tx-'))).toEqual([]);
    await page.goto(`${site.url}/sign-in?ahead=1`);
    await completeProviderSignIn(page, site);
    expect(page.url()).toBe(`${site.url}/`);
  });

  test('a form whose session has ended leads back to its page after signing in', async () => {
    const page = await openPage({}, /401/);
    await signInWithBrowser(page, site);
    await page.goto(`${site.url}/connections/platform`);
    await page.context().clearCookies({ name: sessionCookieName(site.url) });
    await navigateBy(page, () => page.getByRole('button', { name: 'Disconnect' }).click());
    expect(await textOf(page)).toContain('Please sign in');
    await saveScreenshot(page, 'form-after-expiry');
    await navigateBy(page, () => page.getByRole('link', { name: 'Sign in' }).first().click());
    await completeProviderSignIn(page, site);
    expect(page.url()).toBe(`${site.url}/connections/platform`);
  });
});
