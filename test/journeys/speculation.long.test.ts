/**
 * R136 with speculation rules: Chromium loads links to the sign-in and a callback ahead, and prerenders them. It is told
 * so by a page on the host of Gatehouse, as a developer's may be.
 */
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { launchBrowserWithBackCache, useBrowser } from '../support/browser.ts';
import { startSite, type TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy } from '../support/journey.ts';
import { createTestStorage, type TestStorage } from '../support/test-storage.ts';
import { LONG_TIMEOUT, until } from '../support/until.ts';

/** A request that passed the proxy. `purpose`: its `Sec-Purpose`. */
interface Passed {
  path: string;
  purpose: string;
  status: number;
}

const openPage = useBrowser(launchBrowserWithBackCache);
let storage: TestStorage;
let proxy: Server;
let site: TestSite;
let port: number;
let passed: Passed[] = [];
/** The proxy holds back the first callback, and leads to the page that has it loaded ahead. */
let holdsCallback = false;

const frontPage = (ahead: string, action: string) => `<!doctype html><title>Front</title>
<script type="speculationrules">${JSON.stringify({ [action]: [{ urls: [ahead], eagerness: 'immediate' }] })}</script>
<a href="${ahead.replaceAll('&', '&amp;')}">Go on</a>`;

beforeAll(async () => {
  storage = await createTestStorage('SQLite');
  proxy = createServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '', 'http://127.0.0.1');
    if (pathname === '/front') {
      res.setHeader('Content-Type', 'text/html');
      res.end(frontPage(searchParams.get('ahead') ?? '', searchParams.get('action') ?? ''));
      return;
    }
    if (holdsCallback && pathname.startsWith('/oauth/callback/')) {
      holdsCallback = false;
      res.writeHead(302, { Location: `/held?${new URLSearchParams({ callback: req.url ?? '' })}` }).end();
      return;
    }
    const forwarded = httpRequest({ port, method: req.method, path: req.url, headers: req.headers }, (response) => {
      const { statusCode: status = 0, headers } = response;
      passed.push({ path: req.url ?? '', purpose: String(req.headers['sec-purpose'] ?? ''), status });
      res.writeHead(status, headers);
      response.pipe(res);
    });
    req.pipe(forwarded);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  site = await startSite({ env: { ...storage.env, PUBLIC_URL: url } });
  port = Number(site.env.PORT);
});
afterAll(async () => {
  proxy?.close();
  await site?.close();
  await storage?.dispose();
});
beforeEach(() => {
  passed = [];
});

/** What requests for sign-ins store. Scheduled tasks store other things meanwhile. */
const records = async () =>
  (await storage.items()).filter((item) =>
    /"(pending-requests|sign-in|session|user|grant|audit)/.test(JSON.stringify(item)),
  );
const openFront = (page: Page, ahead: string, action: string) =>
  page.goto(`${site.url}/front?${new URLSearchParams({ ahead, action })}`);
const loadedAhead = (path: string) => passed.filter((request) => request.path === path && request.purpose !== '');

test.each(['prefetch', 'prerender'])(
  'R136 a link to the sign-in in rules for %s stores nothing, evicts nothing, and works when it is clicked',
  async (action) => {
    const page = await openPage({}, /503|404/);
    // Ten sign-ins wait at the provider; one more would evict the first.
    await page.goto(`${site.url}/sign-in?return_to=/sessions`);
    const firstAtProvider = page.url();
    for (let n = 0; n < 9; n += 1) await page.goto(`${site.url}/sign-in`);
    const before = { stored: await records(), cookies: await page.context().cookies(site.url) };
    for (const path of [
      '/sign-in?return_to=/bin',
      '/sign-in?app=platform&prompt=login',
      '/sign-in?app=platform&step_up=1',
    ]) {
      await openFront(page, path, action);
      await until(() => loadedAhead(path).length > 0);
      expect(loadedAhead(path).map(({ purpose, status }) => [purpose.includes(action), status])).toEqual([[true, 503]]);
    }
    expect({ stored: await records(), cookies: await page.context().cookies(site.url) }).toEqual(before);

    await page.goto(firstAtProvider);
    await completeProviderSignIn(page, site);
    expect(page.url()).toBe(`${site.url}/sessions`);

    const path = '/sign-in?return_to=/connections';
    await openFront(page, path, action);
    await until(() => loadedAhead(path).length > 0);
    await navigateBy(page, () => page.getByRole('link', { name: 'Go on' }).click());
    await completeProviderSignIn(page, site);
    expect(page.url()).toBe(`${site.url}/connections`);
  },
);

test.each(['prefetch', 'prerender'])(
  'R136 a callback in rules for %s spends nothing, and signs in when it is opened',
  async (action) => {
    const page = await openPage({}, /503|404/);
    await page.goto(`${site.url}/sign-in?return_to=/sessions`);
    holdsCallback = true;
    await completeProviderSignIn(page, site);
    const path = new URL(page.url()).searchParams.get('callback') ?? '';
    expect(path).toContain('/oauth/callback/platform?code=');
    const before = { stored: await records(), cookies: await page.context().cookies(site.url) };

    await openFront(page, path, action);
    await until(() => loadedAhead(path).length > 0);
    expect(loadedAhead(path).map(({ purpose, status }) => [purpose.includes(action), status])).toEqual([[true, 503]]);
    expect({ stored: await records(), cookies: await page.context().cookies(site.url) }).toEqual(before);

    await navigateBy(page, () => page.getByRole('link', { name: 'Go on' }).click());
    await expect.poll(() => page.url(), LONG_TIMEOUT).toBe(`${site.url}/sessions`);
    expect(
      passed.filter((request) => request.path === path && request.purpose === '').map(({ status }) => status),
    ).toEqual([303]);
  },
);
