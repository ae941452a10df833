/**
 * R106 in a browser with its back/forward cache on: Back loads pages of signed-in users anew, so nothing that is over is
 * seen, not even for a moment.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBinSiteWithAccounts } from '../bin-lookup-service/site.ts';
import { launchBrowserWithBackCache, useBrowser } from '../support/browser.ts';
import { PASSWORD, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy, signInWithBrowser } from '../support/journey.ts';
import { LONG_TIMEOUT } from '../support/until.ts';

const ADMIN = 'admin@example.test';
/** What every page of a signed-in user has. */
const SIGNED_IN_FRAME = '.menu-user';

const openPage = useBrowser(launchBrowserWithBackCache);
let site: TestSite;
let binSite: Awaited<ReturnType<typeof startBinSiteWithAccounts>>;
beforeAll(async () => {
  [site, binSite] = await Promise.all([startSite(), startBinSiteWithAccounts({})]);
});
afterAll(() => Promise.all([site?.close(), binSite?.close()]));

/** The pages that the browser took from its back/forward cache, and whether they were visible before they acted. */
type Restored = { path: string; isVisible: boolean }[];

const NOTE_RESTORED = `addEventListener('pageshow', ({ persisted }) => {
  const restored = JSON.parse(sessionStorage.restored ?? '[]');
  if (persisted) restored.push({ path: location.pathname, isVisible: document.documentElement.checkVisibility() });
  sessionStorage.restored = JSON.stringify(restored);
})`;

const press = (page: Page, name: string) =>
  navigateBy(page, () => page.getByRole('button', { name, exact: true }).click());
const restoredOf = async (page: Page): Promise<Restored> =>
  JSON.parse((await page.evaluate('sessionStorage.restored')) as string);

/** Opens a page that notes what returns from the cache. @param expected errors that a test provokes */
async function openWatched(expected?: RegExp): Promise<Page> {
  const page = await openPage({}, expected);
  await page.addInitScript(NOTE_RESTORED);
  return page;
}

/** Goes to another page of the same origin, and back. */
async function leaveAndReturn(page: Page, path = '/nowhere'): Promise<void> {
  await page.goto(new URL(path, page.url()).href);
  await page.goBack({ waitUntil: 'commit' });
}

/** Expects that the page in the cache was not visible, and has been loaded anew. */
async function expectLoadedAnew(page: Page): Promise<void> {
  const navigation = () => page.evaluate("performance.getEntriesByType('navigation')[0].type").catch(String);
  await expect.poll(navigation, LONG_TIMEOUT).toBe('reload');
  await page.waitForLoadState('load');
  const restored = await restoredOf(page);
  expect(restored.length).toBeGreaterThan(0);
  expect(restored.filter(({ isVisible }) => isVisible)).toEqual([]);
  await page.evaluate("sessionStorage.removeItem('restored')");
}

const SECRETS: [string, (page: Page) => Promise<void>][] = [
  [
    'relay token',
    async (page) => {
      await page.goto(`${site.url}/admin/relay-tokens/new`);
      await page.getByLabel('Name', { exact: true }).fill('Reports');
      await page.getByLabel('Collaboration platform').check();
      await press(page, 'Create relay token');
    },
  ],
  [
    'rotated relay token',
    async (page) => {
      await page.getByRole('link', { name: 'Rotate secret' }).click();
      await press(page, 'Create new secret');
    },
  ],
  [
    'admin token',
    async (page) => {
      await page.goto(`${site.url}/admin/admin-tokens/new`);
      await page.getByLabel('Name', { exact: true }).fill('Reports');
      await press(page, 'Create admin token');
    },
  ],
  [
    'webhook',
    async (page) => {
      await page.goto(`${site.url}/admin/webhooks/new`);
      await page.getByLabel('URL', { exact: true }).fill('http://127.0.0.1:1/hook');
      await press(page, 'Create webhook');
    },
  ],
];
const FAILED_PAGE = /Failed to load resource: the server responded with a status of 404/;

test('R106 Back to a page with a new secret loads it anew, and the secret is gone', async () => {
  const page = await openWatched(FAILED_PAGE);
  await signInWithBrowser(page, site, ADMIN);
  for (const [what, create] of SECRETS) {
    await create(page);
    const secret = String(await page.locator('.secret-once').textContent());
    expect(secret.length, what).toBeGreaterThan(20);
    await leaveAndReturn(page);
    await expectLoadedAnew(page);
    expect(await page.content(), what).not.toContain(secret);
    await page.goForward();
    await page.goBack({ waitUntil: 'commit' });
    await expectLoadedAnew(page);
    expect(await page.content(), what).not.toContain(secret);
  }
});

test('R106 without the script, this browser would show the secret again', async () => {
  const page = await openWatched(/back\.js|ERR_BLOCKED|status of 404/);
  await signInWithBrowser(page, site, ADMIN);
  const devTools = await page.context().newCDPSession(page);
  await devTools.send('Network.enable');
  await devTools.send('Network.setBlockedURLs', { urls: ['*back.js'] });
  await SECRETS[0]?.[1](page);
  const secret = String(await page.locator('.secret-once').textContent());
  await leaveAndReturn(page);
  await expect
    .poll(() => restoredOf(page))
    .toEqual([{ path: expect.stringContaining('/admin/relay-tokens/'), isVisible: true }]);
  expect(await page.locator('.secret-once').textContent()).toBe(secret);
});

test('R106 Back to the page of a new secret in the account of the BIN lookup service loads it anew', async () => {
  const page = await openWatched(FAILED_PAGE);
  await page.goto(`${binSite.url}/account/sign-in`);
  await completeProviderSignIn(page, binSite);
  await page.getByLabel('Name', { exact: true }).fill('Reports');
  await press(page, 'Create key');
  const secret = String(await page.locator('.secret-once').textContent());
  expect(secret.length).toBeGreaterThan(20);
  await leaveAndReturn(page, '/account/nowhere');
  await expectLoadedAnew(page);
  expect(await page.content()).not.toContain(secret);
});

test('R106 Back to the page of a new secret in the console of the sandbox loads it anew', async () => {
  const page = await openWatched(FAILED_PAGE);
  const { issuer } = site.sandbox;
  await page.goto(`${issuer}/console/tokens`);
  await page.locator('input[name=login]').fill(ADMIN);
  await page.locator('input[name=password]').fill(PASSWORD);
  await press(page, 'Sign in');
  await page.locator('input[name=code]').fill(site.sandbox.secondFactorCode(ADMIN) ?? '');
  await press(page, 'Continue');
  await page.locator('input[name=name]').fill('Nightly report');
  await press(page, 'Create');
  const secret = String(await page.locator('.secret code').textContent());
  expect(secret.length).toBeGreaterThan(20);
  await leaveAndReturn(page);
  await expectLoadedAnew(page);
  expect(await page.content()).not.toContain(secret);
});

test.each([
  ['the start page', '/'],
  ['connections', '/connections'],
  ['sessions', '/sessions'],
  ['the page of an app', '/connections/platform'],
  ['BIN lookup', '/bin'],
  ['the overview', '/admin'],
  ['a list of the administration', '/admin/users'],
])('R106 Back shows no page of a session that was ended elsewhere: %s', async (_what, path) => {
  const page = await openWatched(FAILED_PAGE);
  await signInWithBrowser(page, site, ADMIN);
  await page.goto(site.url + path);
  expect(await page.locator(SIGNED_IN_FRAME).count()).toBe(1);
  await page.goto(`${site.url}/nowhere`);
  await endAllSessions();
  await page.goBack({ waitUntil: 'commit' });
  // The user gets the start page, or is sent to the provider, whose page has another origin.
  await expect.poll(() => page.locator(SIGNED_IN_FRAME).count().catch(String), LONG_TIMEOUT).toBe(0);
  const restored = page.url().startsWith(site.url) ? await restoredOf(page) : [];
  expect(restored.filter(({ isVisible }) => isVisible)).toEqual([]);
});

test.each([
  ['JSON of the session', '/session'],
  ['JSON of users', '/admin/api/users'],
  ['what a platform sent', '/threads/current'],
])('R106 Back shows no data of a session that was ended elsewhere: %s', async (_what, path) => {
  const page = await openWatched(/status of 40[14]|Blocked script execution/);
  await signInWithBrowser(page, site, ADMIN);
  await page.goto(site.url + path);
  const shown = await page.textContent('body');
  await page.goto(`${site.url}/nowhere`);
  await endAllSessions();
  await page.goBack({ waitUntil: 'load' });
  expect(await page.textContent('body')).not.toBe(shown);
});

async function endAllSessions(): Promise<void> {
  const { agent } = await signIn(site, ADMIN);
  await agent.submit(await agent.get(`${site.url}/sessions`), {}, { button: 'Sign out everywhere' });
}

test('reloading the result of a BIN lookup shows it again, and sends no form', async () => {
  const page = await openWatched(FAILED_PAGE);
  await signInWithBrowser(page, site, ADMIN);
  await page.goto(`${site.url}/bin`);
  await page.getByLabel('First digits of the card').fill('4571 7360');
  await press(page, 'Look up');
  const result = page.locator('.bin-result');
  expect(await result.textContent()).toContain('Jyske Bank');
  const methods: string[] = [];
  page.on('request', (request) => methods.push(request.method()));
  await page.reload();
  expect(await result.textContent()).toContain('Jyske Bank');
  await leaveAndReturn(page);
  await expectLoadedAnew(page);
  expect(await result.textContent()).toContain('Jyske Bank');
  expect(new Set(methods)).toEqual(new Set(['GET']));
});

/** What was sent to Gatehouse since the last call. */
function methodsOf(page: Page): () => string[] {
  let methods: string[] = [];
  page.on('request', (request) => methods.push(request.method()));
  return () => {
    const sent = [...new Set(methods)];
    methods = [];
    return sent;
  };
}

test('R140 no form ends with the page of a POST: reload, Back and Forward send nothing again', async () => {
  const page = await openWatched(/status of 40[04]/);
  await signInWithBrowser(page, site, ADMIN);
  const sentMethods = methodsOf(page);
  const nameField = page.getByLabel('Name', { exact: true });
  /** Expects the same after a reload, Back and Forward. The cache for Back has no page with the status 400. */
  const expectAddress = async (shown: () => Promise<unknown>, isInCache: boolean) => {
    const before = await shown();
    sentMethods();
    await page.reload();
    expect(await shown()).toEqual(before);
    await page.goto(`${site.url}/nowhere`);
    await page.goBack({ waitUntil: 'commit' });
    if (isInCache) await expectLoadedAnew(page);
    await expect.poll(() => shown().catch(String), LONG_TIMEOUT).toEqual(before);
    await page.goBack({ waitUntil: 'commit' });
    await expectLoadedAnew(page);
    await page.goForward({ waitUntil: 'commit' });
    if (isInCache) await expectLoadedAnew(page);
    await expect.poll(() => shown().catch(String), LONG_TIMEOUT).toEqual(before);
    expect(sentMethods()).toEqual(['GET']);
  };

  await page.goto(`${site.url}/admin/admin-tokens/new`);
  await nameField.fill('Kept');
  await page.getByLabel('On a date').check();
  await press(page, 'Create admin token');
  await expectAddress(
    async () => [await nameField.inputValue(), await page.locator('[role=alert]').textContent()],
    false,
  );

  await page.goto(`${site.url}/admin/register-app`);
  await nameField.fill('Board');
  await page.locator('#issuer').fill(site.sandbox.issuer);
  await press(page, 'Continue');
  await expectAddress(async () => page.locator('#clientId').isVisible(), true);
});
