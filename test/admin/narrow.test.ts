/** The administration on a small telephone, in a real browser: the menu shows where one is, and no text is wider than its place. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { expectNoSideways, throughProvider } from '../support/journey.ts';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site?.close());

/** Sides of the item of the menu where one is, in whole pixels as rows are moved, and of the window. */
const PLACE = `(() => {
  const { left, right } = document.querySelector('.admin-nav [aria-current]').getBoundingClientRect();
  return { left: Math.ceil(left), right: Math.floor(right), width: document.documentElement.clientWidth };
})()`;

test('at 360 px each page shows its own item of the menu, and a long name or state stays in its card', async () => {
  const { agent } = await signIn(site, 'admin@example.test');
  const { csrfToken } = JSON.parse((await agent.get(`${site.url}/session`)).body);
  const made = await agent.request(`${site.url}/admin/api/connected-apps`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-csrf-token': csrfToken },
    body: JSON.stringify({
      ...{ id: 'elsewhere', name: 'w'.repeat(100), issuer: site.sandbox.issuer, clientId: 'x', clientSecret: 'x' },
      ...{ scopes: ['openid'], callbackUrls: ['https://elsewhere.example.com/cb'] },
    }),
  });
  expect(made.status).toBe(201);

  const page = await openPage({ viewport: { width: 360, height: 800 } });
  await page.goto(`${site.url}/sign-in`);
  await throughProvider(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin`);
  const urls = (await page.evaluate(
    `[...document.querySelectorAll('.admin-nav a')].map(({ href }) => href)`,
  )) as string[];
  expect(urls.length).toBeGreaterThan(10);
  for (const url of urls) {
    await page.goto(url);
    await expectNoSideways(page);
    const { left, right, width } = (await page.evaluate(PLACE)) as { left: number; right: number; width: number };
    expect([url, left >= 0, right <= width]).toEqual([url, true, true]);
  }
});
