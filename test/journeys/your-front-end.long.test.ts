/** docs/your-front-end.md in a real browser: what leads to the provider, called by a page of the same origin. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { completeProviderSignIn } from '../support/journey.ts';
import { LONG_TIMEOUT, until } from '../support/until.ts';
import { codeBlock, FRONT_ENDS, startFrontEnd } from './documented-front-end.ts';

const openPage = useBrowser();

/** Makes the functions of the document available to `page.evaluate`. */
const MODULES = `<!doctype html><title>Board</title><p>The site</p><script type="module">
import * as gatehouse from './gatehouse.js';
import * as leave from './leave.js';
import * as popup from './popup.js';
Object.assign(globalThis, gatehouse, leave, popup, { isLoaded: true });
document.body.addEventListener('click', () => {
  popup.signInInPopup().then(({ user }) => document.body.append('Welcome ' + user.name));
});
</script>`;

const start = () =>
  startFrontEnd(FRONT_ENDS.express, {
    'public/board.html': MODULES,
    'public/gatehouse.js': codeBlock('js gatehouse.js'),
    'public/leave.js': codeBlock('js leave.js'),
    'public/popup.js': codeBlock('js popup.js'),
    'public/signed-in.html': codeBlock('html signed-in.html'),
  });

/** Runs code in the page as its own scripts do. It may leave the page. */
const runIn = (page: Page, code: string) => page.evaluate(`void (${code})`);
const isLoaded = (page: Page) => page.waitForFunction('globalThis.isLoaded');

test('a page on the same host signs in, connects an app, asks for another account and signs out with fetch', async () => {
  const { site, url } = await start();
  const page = await openPage();
  await page.goto(`${url}/board.html`);
  await isLoaded(page);
  const led = async (code: string, host: string) => {
    await Promise.all([page.waitForURL((address) => address.href.startsWith(host), LONG_TIMEOUT), runIn(page, code)]);
  };

  await led(
    `callGatehouse('/sign-in?return_to=/board.html').then(({ location: to }) => location.assign(to))`,
    site.sandbox.issuer,
  );
  await completeProviderSignIn(page, { url });
  expect(page.url()).toBe(`${url}/board.html`);
  await isLoaded(page);
  expect(await page.evaluate(`callGatehouse('/session').then(({ signedIn }) => signedIn)`)).toBe(true);

  await page.evaluate(`postToGatehouse('/connections/platform/disconnect', {})`);
  await led(`leaveFor('/connections/platform', { return_to: '/board.html?connected' })`, site.sandbox.issuer);
  await completeProviderSignIn(page, { url });
  expect(page.url()).toBe(`${url}/board.html?connected`);

  await isLoaded(page);
  await led(`leaveFor('/sign-out?return_to=/board.html')`, site.sandbox.issuer);
  expect(await page.locator('input[name=login]').count()).toBe(1);

  await page.goto(`${url}/gatehouse/sign-in?return_to=/board.html`);
  await completeProviderSignIn(page, { url });
  await isLoaded(page);
  await led(`leaveFor('/sign-out')`, `${site.sandbox.issuer}/sign-out`);
  await page.goto(`${url}/board.html`);
  await isLoaded(page);
  expect(await page.evaluate(`callGatehouse('/session')`)).toEqual({ signedIn: false });
});

test('fetch without options of its own gets the address, too', async () => {
  const { site, url } = await start();
  const page = await openPage();
  await page.goto(`${url}/gatehouse/sign-in?return_to=/board.html`);
  await completeProviderSignIn(page, { url });
  await isLoaded(page);
  const { location } = (await page.evaluate(`(async () => {
    const { csrfToken } = await (await fetch('/gatehouse/session')).json();
    const options = { method: 'POST', headers: { 'X-CSRF-Token': csrfToken } };
    return (await fetch('/gatehouse/sign-out', options)).json();
  })()`)) as { location: string };
  expect(new URL(location).origin).toBe(site.sandbox.issuer);
});

test('a sign-in in a popup is reported to the page, although the browser separates both', async () => {
  const { url } = await start();
  const page = await openPage();
  await page.goto(`${url}/board.html`);
  await isLoaded(page);
  await page.evaluate(
    `{ const { open } = window; window.open = (...args) => (globalThis.opened = open.apply(window, args)); }`,
  );
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.getByText('The site').click()]);
  await popup.waitForURL((address) => !address.href.startsWith(`${url}/gatehouse`) && address.href !== 'about:blank');
  // What the document says about polling `closed`.
  await page.waitForFunction('opened.closed');
  expect(popup.isClosed()).toBe(false);
  await completeProviderSignIn(popup, { url }).catch((error) => {
    if (!popup.isClosed()) throw error;
  });
  await page.getByText('Welcome Uma Okafor').waitFor();
  await until(() => popup.isClosed());
});
