/** Every page fits a small phone without browser errors, light and dark. Consent works through a third origin. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import {
  checkOnAllScreens,
  completeProviderSignIn,
  navigateBy,
  signInWithBrowser,
  signOutFromMenu,
} from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';

/** The console error of pages that fail on purpose. Others are not allowed. */
const FAILED_PAGE = /Failed to load resource: the server responded with a status of (4\d\d|503)/;

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite({
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second', { name: 'Second platform' })],
  });
});
afterEach(() => site.sandbox.faults.clear());
afterAll(() => site?.close());

test('every page fits and causes no browser errors', async () => {
  const page = await openPage({}, FAILED_PAGE);
  const visit = async (path: string, name: string) => {
    await page.goto(site.url + path);
    await checkOnAllScreens(page, name);
  };
  await visit('/', 'signed-out');
  await visit('/sign-in', 'choose');
  await visit('/nothing/here', 'not-found');
  await visit('/problems/reconnect_needed', 'problem');
  await visit('/oauth/callback/platform?state=invented&code=x', 'callback-error');
  const largeCookies = Array.from({ length: 5 }, (_, index) => ({
    name: `large-${index}`,
    value: 'x'.repeat(4_000),
    url: site.url,
  }));
  await page.context().addCookies(largeCookies);
  await visit('/', 'too-many-cookies');
  await page.context().clearCookies();

  await page.goto(`${site.url}/sign-in?app=platform`);
  await checkOnAllScreens(page, 'provider-sign-in');
  await page.locator('input[name=login]').fill('user@example.test');
  await page.locator('input[name=password]').fill('gatehouse-demo');
  await navigateBy(page, () => page.getByRole('button', { name: 'Sign in' }).click());
  await checkOnAllScreens(page, 'provider-consent');
  await completeProviderSignIn(page, site);
  await checkOnAllScreens(page, 'home');
  await signIn(site, undefined, { path: '/sign-in?app=platform' });
  await visit('/sessions', 'sign-ins');
  await navigateBy(page, () => page.getByRole('button', { name: 'Sign out there', exact: true }).click());
  await checkOnAllScreens(page, 'sign-in-ended');
  await visit('/connections', 'connections');
  await visit('/connections/platform', 'connection');
  await visit('/connections/second', 'connection-none');

  for (const [digits, name] of [
    ['45717360', 'bin-found'],
    ['4571', 'bin-invalid'],
    ['400000', 'bin-short'],
    ['371449', 'bin-amex'],
  ]) {
    await page.goto(`${site.url}/`);
    await page.locator('input[name=bin]').fill(digits ?? '');
    await navigateBy(page, () => page.getByRole('button', { name: 'Look up' }).click());
    await checkOnAllScreens(page, name ?? '');
  }

  site.sandbox.faults.set({ listener: 'platform', kind: 'unavailable' });
  await visit('/', 'home-platform-down');
  site.sandbox.faults.clear();
  await visit('/nothing/here', 'not-found-signed-in');

  await page.goto(`${site.url}/connections/platform`);
  await navigateBy(page, () => page.getByRole('button', { name: 'Disconnect' }).click());
  await checkOnAllScreens(page, 'disconnected');
  await visit('/', 'home-not-connected');
  await signOutFromMenu(page);
  await checkOnAllScreens(page, 'provider-sign-out');
});

describe('R68 no form-action: consent can redirect through any origins of the provider', () => {
  let hop: Server;
  beforeAll(async () => {
    hop = createServer();
    await new Promise<void>((resolve) => hop.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => void hop?.close());

  test('a form whose redirects cross a third origin reaches its target', async () => {
    // The third origin is also another site.
    const { port } = hop.address() as AddressInfo;
    const chained = await startSite({ env: { INTERNAL_HOSTS: '127.0.0.1,localhost' } });
    try {
      chained.sandbox.faults.set({
        listener: 'identity-provider',
        path: '/.well-known/openid-configuration',
        kind: 'rewrite',
        change: (body) => ({ ...body, authorization_endpoint: `http://localhost:${port}/authorize` }),
      });
      hop.on('request', (req, res) => {
        res.writeHead(302, { location: `${chained.sandbox.issuer}${req.url ?? '/'}` }).end();
      });
      const page = await openPage();
      const origins = new Set<string>();
      page.on('request', (request) => request.isNavigationRequest() && origins.add(new URL(request.url()).origin));
      await signInWithBrowser(page, chained);
      await page.goto(`${chained.url}/connections/platform`);
      origins.clear();
      await navigateBy(page, () => page.getByRole('button', { name: 'Reconnect' }).click());
      await completeProviderSignIn(page, chained);
      expect(page.url()).toBe(`${chained.url}/connections/platform`);
      expect([...origins]).toEqual([chained.url, `http://localhost:${port}`, chained.sandbox.issuer]);
    } finally {
      await chained.close();
    }
  });
});
