/** The administration on a narrow screen, in a real browser: the menu shows the current page, and no text overflows. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../../support/browser.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { completeProviderSignIn, expectFitsWindow, navigateBy } from '../../support/journey.ts';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site?.close());

interface Position {
  left: number;
  right: number;
  windowWidth: number;
}

/** A script that returns the sides of an element, rounded to whole pixels, and the width of the window. */
const positionScript = (selector: string) => `(() => {
  const { left, right } = document.querySelector('${selector}').getBoundingClientRect();
  return { left: Math.ceil(left), right: Math.floor(right), windowWidth: document.documentElement.clientWidth };
})()`;

test('at 360 px, each page shows its menu item, and long names and states stay in their cards', async () => {
  const { agent } = await signIn(site, 'admin@example.test');
  const { csrfToken } = JSON.parse((await agent.get(`${site.url}/session`)).body);
  const created = await agent.request(`${site.url}/admin/api/connected-apps`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-csrf-token': csrfToken },
    body: JSON.stringify({
      ...{ id: 'elsewhere', name: 'w'.repeat(100), issuer: site.sandbox.issuer, clientId: 'x', clientSecret: 'x' },
      ...{ scopes: ['openid'], callbackUrls: ['https://elsewhere.example.com/cb'] },
    }),
  });
  expect(created.status).toBe(201);

  const page = await openPage({ viewport: { width: 360, height: 800 } }, /status of 400/);
  await page.goto(`${site.url}/sign-in`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin`);
  const hrefsOf = async (selector: string) =>
    (await page.evaluate(`[...document.querySelectorAll('${selector}')].map(({ href }) => href)`)) as string[];
  const sections = await hrefsOf('.site-nav ul:first-of-type a');
  expect(sections.length).toBe(6);
  const urls = new Set([...sections, `${site.url}/admin/sign-ins?from=yesterday&to=2026-13-40`]);
  for (const section of sections) {
    await page.goto(section);
    for (const url of await hrefsOf('.tab-list a')) if (url.includes('/admin/')) urls.add(url);
  }
  expect(urls.size).toBeGreaterThan(12);
  for (const url of urls) {
    await page.goto(url);
    await expectFitsWindow(page);
    if ((await page.locator('.tabs').count()) === 0) continue;
    const currentTab = (await page.evaluate(positionScript('.tab-list [aria-current]'))) as Position;
    expect([url, currentTab.left >= 0, currentTab.right <= currentTab.windowWidth]).toEqual([url, true, true]);
  }

  // On a narrow screen the menu of sections is closed.
  const users = page.locator('.site-nav').getByRole('link', { name: 'Users' });
  expect(await users.isVisible()).toBe(false);
  await page.locator('.site-nav-button').click();
  await navigateBy(page, () => users.click());
  expect(page.url()).toBe(`${site.url}/admin/users`);
});
