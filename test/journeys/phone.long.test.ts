/** A phone of 360 px: the header is one row, the menu opens without scripts, tabs scroll, and what is pressed has 44 px. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStorageOf } from '../gatehouse/grants/storage-access.ts';
import { createAdministrator } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, expectFitsWindow } from '../support/journey.ts';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
  const storage = await openStorageOf(site);
  const admin = await createAdministrator(site, storage);
  await admin.createRelayToken({ expiresAt: new Date(Date.now() + 3_600_000).toISOString() });
  await storage.close();
  await signIn(site, 'user@example.test');
});
afterAll(() => site?.close());

const PRESSED = ['.site-header :is(a, summary, input)', '.site-nav a', '.tab-list a', 'main :is(button, .button)'];
PRESSED.push('main summary', '.menu-items a', '.pager a');

/** What is pressed and is less than 44 px high. Check boxes and links in a text have other bounds. */
const TOO_SMALL = `[...document.querySelectorAll('${PRESSED.join(', ')}')]
  .filter((element) => element.checkVisibility() && element.getBoundingClientRect().height < 43.5)
  .map((element) => element.outerHTML.slice(0, 160))`;

const USER_PAGES = ['', 'connections', 'connections/platform', 'bin', 'sessions', 'docs', 'docs/relay'];
const ADMIN_PAGES = ['', '/users?limit=1', '/relay-tokens', '/connected-apps/platform', '/sign-ins', '/keys'];
const PATHS = [...USER_PAGES, ...ADMIN_PAGES.map((path) => `admin${path}`), 'problems/not_found'];

test.each([true, false])('with scripts: %s', async (javaScriptEnabled) => {
  const page = await openPage({ viewport: { width: 360, height: 740 }, javaScriptEnabled });
  await page.goto(`${site.url}/sign-in?app=platform`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  for (const path of PATHS) {
    await page.goto(`${site.url}/${path}`);
    await expectFitsWindow(page);
    expect((await page.locator('.site-header').boundingBox())?.height, path).toBeLessThanOrEqual(57);
    const link = page.locator('.site-nav a').first();
    expect(await link.isVisible(), path).toBe(false);
    await page.locator('.site-nav-button').click();
    expect(await link.isVisible(), path).toBe(true);
    if ((await page.locator('.menu-row').count()) > 0) await page.locator('.menu-row summary').first().click();
    expect({ path, tooSmall: await page.evaluate(TOO_SMALL) }).toEqual({ path, tooSmall: [] });
  }
  await page.goto(`${site.url}/admin/relay-tokens`);
  const tabs = `[...document.querySelectorAll('.tab-list a')].map((tab) => tab.getBoundingClientRect().top)`;
  expect(new Set((await page.evaluate(tabs)) as number[]).size).toBe(1);
  expect(await page.evaluate(`getComputedStyle(document.querySelector('.tab-list')).overflowX`)).toBe('auto');
});
