/** The main flow in a real browser: sign-in, consent, thread, BIN, expiry, disconnect, reconnect, sign-out, restart. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import type { TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy, signInWithBrowser, signOutFromMenu } from '../support/journey.ts';
import { withoutRandomTexts } from '../support/random-texts.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';

const ACCESS_TOKEN_SECONDS = 3;

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite({ sandbox: { accessTokenSeconds: ACCESS_TOKEN_SECONDS } });
});
afterAll(() => site?.close());

const textOf = (page: Page) => page.locator('body').innerText();

describe('in Chromium', () => {
  test('signs in, consents, reads the thread and returns to the requested page', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site);
    expect(page.url()).toBe(`${site.url}/`);
    expect(await textOf(page)).toContain('Spring launch');
    expect(await textOf(page)).toContain('Signed in as user@example.test');

    const other = await openPage();
    await other.goto(`${site.url}/connections/platform`);
    await completeProviderSignIn(other, site);
    expect(other.url()).toBe(`${site.url}/connections/platform`);
  });

  test('R86 looks up a BIN with the form: its digits are in the address of the result only', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site);
    const seen: string[] = [];
    page.on('request', (request) => seen.push(`${request.url()} ${request.headers().referer ?? ''}`));
    await page.getByLabel('First digits of the card').fill('4571 7360');
    await navigateBy(page, () => page.getByRole('button', { name: 'Look up' }).click());
    expect(page.url()).toBe(`${site.url}/bin?bin=45717360`);
    expect(await page.getByRole('img', { name: /Jyske Bank, Visa/ }).isVisible()).toBe(true);
    seen.push(await page.evaluate('JSON.stringify([document.title, history.state])'));
    expect(withoutRandomTexts(seen.join('\n')).replaceAll('/bin?bin=45717360', '')).not.toContain('4571');
  });

  test('R86 a whole card number never leaves the browser', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site);
    const posted: string[] = [];
    page.on('request', (request) => request.method() === 'POST' && posted.push(request.url()));
    await page.getByLabel('First digits of the card').fill('4571 7360 1234 5678');
    await page.getByRole('button', { name: 'Look up' }).click();
    await page.getByText('You entered more than 8 digits').waitFor();
    expect(await page.getByLabel('First digits of the card').inputValue()).toBe('');
    expect(posted).toEqual([]);
  });

  test('a second browser with another user sees nothing of the first', async () => {
    const first = await openPage();
    await signInWithBrowser(first, site);
    const second = await openPage();
    await second.goto(`${site.url}/`);
    expect(await textOf(second)).not.toMatch(/Spring launch|user@example\.test/);
    await signInWithBrowser(second, site, 'second@example.test');
    expect(await textOf(second)).toContain('Sven Lindqvist');
    for (const path of ['/', '/connections', '/connections/platform', '/session', '/threads/current']) {
      await second.goto(site.url + path);
      expect(await textOf(second), path).not.toMatch(/Spring launch|user@example\.test|Uma Okafor/);
    }
    await first.reload();
    expect(await textOf(first)).toContain('Spring launch');
  });

  test('reads the thread after the access token has expired', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site);
    const calls = site.sandbox.requests.count('POST /token', 'identity-provider');
    await page.waitForTimeout((ACCESS_TOKEN_SECONDS + 0.5) * 1000);
    await page.reload();
    expect(await textOf(page)).toContain('Spring launch');
    expect(site.sandbox.requests.count('POST /token', 'identity-provider')).toBe(calls + 1);
  });

  test('disconnects with the confirmation of the provider, connects again, and survives a restart', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site);
    await navigateBy(page, () => page.getByRole('link', { name: 'Connections' }).click());
    await navigateBy(page, () => page.getByRole('link', { name: 'Collaboration platform', exact: true }).click());
    const revocations = site.sandbox.requests.count('POST /revoke', 'identity-provider');
    await navigateBy(page, () => page.getByRole('button', { name: 'Disconnect' }).click());
    expect(site.sandbox.requests.count('POST /revoke', 'identity-provider')).toBeGreaterThan(revocations);
    expect(await page.getByRole('status').innerText()).toMatch(/confirmed/);
    expect(await textOf(page)).toContain('Not connected');
    expect(await page.getByRole('button', { name: 'Disconnect' }).count()).toBe(0);

    await page.goto(`${site.url}/`);
    expect(await textOf(page)).not.toContain('Spring launch');
    await navigateBy(page, () =>
      page
        .getByRole('button', { name: /^Connect/ })
        .first()
        .click(),
    );
    await completeProviderSignIn(page, site);
    await page.goto(`${site.url}/`);
    expect(await textOf(page)).toContain('Spring launch');

    await site.restart();
    await page.reload();
    expect(await textOf(page)).toContain('Spring launch');
    expect(await textOf(page)).toContain('Signed in as user@example.test');
  });

  test('says that the provider did not confirm the revocation', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site, 'second@example.test');
    await page.goto(`${site.url}/connections/platform`);
    const heal = site.sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'unavailable' });
    await navigateBy(page, () => page.getByRole('button', { name: 'Disconnect' }).click());
    heal();
    expect(await page.getByRole('alert').innerText()).toMatch(/not|could/i);
    expect(await textOf(page)).not.toMatch(/has confirmed that our access is withdrawn/);
  });

  test('signs out here and at the provider', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site);
    await signOutFromMenu(page);
    // The provider asks whether to end its own session, too.
    expect(page.url().startsWith(site.sandbox.issuer)).toBe(true);
    await navigateBy(page, () => page.getByRole('button', { name: 'Sign out' }).click());
    expect(page.url()).toBe(`${site.url}/`);
    expect(await textOf(page)).toContain('Welcome to');
    expect((await page.goto(`${site.url}/session`).then((response) => response?.json())).signedIn).toBe(false);
    // The provider asks for the password again.
    await page.goto(`${site.url}/sign-in`);
    expect(await page.locator('input[name=password]').count()).toBe(1);
  });

  test('works without JavaScript', async () => {
    const page = await openPage({ javaScriptEnabled: false });
    await signInWithBrowser(page, site);
    expect(await textOf(page)).toContain('Spring launch');
    await page.getByLabel('First digits of the card').fill('45717360');
    await navigateBy(page, () => page.getByRole('button', { name: 'Look up' }).click());
    expect(await textOf(page)).toContain('Jyske Bank');
    await page.goto(`${site.url}/connections/platform`);
    await navigateBy(page, () => page.getByRole('button', { name: 'Disconnect' }).click());
    expect(await textOf(page)).toContain('Not connected');
    await navigateBy(page, () =>
      page
        .getByRole('button', { name: /^Connect/ })
        .first()
        .click(),
    );
    await completeProviderSignIn(page, site);
    expect(await textOf(page)).toContain('Active');
    await signOutFromMenu(page);
    expect(page.url().startsWith(site.sandbox.issuer)).toBe(true);
  });

  test('works with only the keyboard, and shows the focus', async () => {
    const page = await openPage();
    await page.goto(`${site.url}/`);
    await page.keyboard.press('Tab');
    expect(await focused(page)).toContain('Skip to the content');
    await tabTo(page, 'Sign in with');
    await navigateBy(page, () => page.keyboard.press('Enter'));
    await page.locator('input[name=login]:focus').waitFor();
    await page.keyboard.type('user@example.test');
    await page.keyboard.press('Tab');
    await page.keyboard.type('gatehouse-demo');
    await navigateBy(page, () => page.keyboard.press('Enter'));
    if (!page.url().startsWith(`${site.url}/`)) {
      await tabTo(page, 'Allow');
      await navigateBy(page, () => page.keyboard.press('Enter'));
    }
    expect(await textOf(page)).toContain('Spring launch');
    await tabTo(page, 'bin');
    await page.keyboard.type('45717360');
    await navigateBy(page, () => page.keyboard.press('Enter'));
    expect(await textOf(page)).toContain('Jyske Bank');
    await tabTo(page, 'Connections');
    await navigateBy(page, () => page.keyboard.press('Enter'));
    expect(page.url()).toBe(`${site.url}/connections`);
    await tabTo(page, 'Signed in as');
    await page.keyboard.press('Enter');
    await tabTo(page, 'Sign out');
    await navigateBy(page, () => page.keyboard.press('Enter'));
    expect(page.url().startsWith(site.sandbox.issuer)).toBe(true);
  });

  test('a user who opens localhost is redirected to PUBLIC_URL and can sign in', async () => {
    const page = await openPage();
    await page.goto(`${site.url.replace('127.0.0.1', 'localhost')}/connections`);
    await completeProviderSignIn(page, site);
    expect(page.url()).toBe(`${site.url}/connections`);
    expect(await textOf(page)).toContain('Collaboration platform');
  });

  test('two tabs can sign in at the same time (R64)', async () => {
    const page = await openPage();
    const tab = await page.context().newPage();
    await page.goto(`${site.url}/sign-in?return_to=/connections`);
    await tab.goto(`${site.url}/sign-in?return_to=/connections/platform`);
    await completeProviderSignIn(page, site);
    await completeProviderSignIn(tab, site);
    expect(page.url()).toBe(`${site.url}/connections`);
    expect(tab.url()).toBe(`${site.url}/connections/platform`);
    await page.reload();
    expect(await textOf(page)).toContain('Your connections');
  });

  test('a callback that is opened again after the sign-in leads home, not to an error', async () => {
    const page = await openPage();
    const callbacks: string[] = [];
    page.on('request', (request) => request.url().includes('/oauth/callback/') && callbacks.push(request.url()));
    await signInWithBrowser(page, site);
    await page.goto(callbacks[0] ?? '');
    expect(page.url()).toBe(`${site.url}/`);
    expect(await textOf(page)).toContain('Spring launch');
  });
});

/** Returns the text or name of the focused element. Fails if the focus is not visible. */
async function focused(page: Page): Promise<string> {
  const element = (await page.evaluate(`(() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const marked = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
    return { text: element.innerText || element.name || element.tagName, marked, tag: element.tagName };
  })()`)) as { text: string; marked: boolean; tag: string };
  if (element.tag !== 'BODY') expect(element.marked, `the focus on "${element.text}" is visible`).toBe(true);
  return element.text;
}

async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 40; presses += 1) {
    await page.keyboard.press('Tab');
    if ((await focused(page)).startsWith(name)) return;
  }
  throw new Error(`The Tab key never reaches "${name}" on ${page.url()}.`);
}
