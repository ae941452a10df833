/** Pages of an installation with 500 connected apps, two of which have the same name, in a browser. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { violationsAt } from '../support/axe.ts';
import { useBrowser } from '../support/browser.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { navigateBy, signInWithBrowser } from '../support/journey.ts';

const ADA = 'admin@example.test';
const OTHERS = 499;

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite({
    apps: (parts) => [
      sandboxApp(parts, 'platform'),
      ...Array.from({ length: OTHERS }, (_, number) => ({
        ...sandboxApp(parts, 'second', { id: `app-${number}`, name: `App ${number}` }),
        callbackUrls: [`${parts.url}/oauth/callback/app-${number}`],
        signIn: undefined,
        ...(number < 2 && { name: 'Calendar' }),
      })),
    ],
  });
  const { agent } = await signIn(site, ADA, { path: '/sign-in?return_to=/admin' });
  const form = await agent.get(`${site.url}/admin/relay-tokens/new`);
  await agent.submit(form, { name: 'Nightly', apps: 'platform' }, { button: 'Create relay token' });
});
afterAll(() => site?.close());

const heightOf = (page: Page) => page.evaluate('document.documentElement.scrollHeight');
const PAGES = ['', 'connections', 'admin/relay-tokens/new', 'admin/policy', 'admin/connections', 'admin/audit'];

test.each(PAGES)('/%s is short and light', async (path) => {
  const { agent } = await signIn(site, ADA, { path: '/sign-in?return_to=/admin' });
  const { body } = await agent.get(`${site.url}/${path}`);
  const page = await openPage();
  await signInWithBrowser(page, site, ADA);
  await page.goto(`${site.url}/${path}`);
  const height = await heightOf(page);
  expect(height).toBeLessThan(3_000);
  expect(body.length).toBeLessThan(120_000);
  if (process.env.MEASURE) process.stdout.write(`/${path}: ${height} px, ${Math.round(body.length / 1000)} kB\n`);
});

test('have no violations', async () => {
  const page = await openPage({ bypassCSP: true });
  await signInWithBrowser(page, site, ADA);
  expect(
    await violationsAt(
      page,
      PAGES.map((path) => `${site.url}/${path}`),
    ),
  ).toEqual([]);
});

describe('the home of a user', () => {
  test('shows what is connected, and finds the rest by a search', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site);
    const rest = page.locator('details', { hasText: `Connect another app (${OTHERS})` });
    expect(await page.locator('.connection-rows > li').allInnerTexts()).toHaveLength(1);
    await rest.locator('summary').click();
    await page.getByLabel('Search apps').fill('cal');
    const names = rest.getByRole('link');
    await expect.poll(() => names.allInnerTexts()).toEqual(['Calendar (app-0)', 'Calendar (app-1)']);
    await navigateBy(page, () => names.last().click());
    expect(page.url()).toBe(`${site.url}/connections/app-1`);
    expect(await page.locator('h1').innerText()).toBe('Calendar (app-1)');
  });

  test('has all links without JavaScript', async () => {
    const page = await openPage({ javaScriptEnabled: false });
    await signInWithBrowser(page, site);
    await page.locator('details', { hasText: 'Connect another app' }).locator('summary').click();
    expect(await page.locator('.long-list a').count()).toBe(OTHERS);
    expect(await page.getByRole('searchbox').count()).toBe(0);
  });
});

describe('the form of a relay token', () => {
  test('finds apps by a search, and keeps what is chosen', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site, ADA);
    await page.goto(`${site.url}/admin/relay-tokens/new`);
    const apps = page.getByRole('group', { name: 'Connected apps' });
    const search = apps.getByRole('searchbox');
    await search.fill('collaboration');
    await apps.getByLabel('Collaboration platform').check();
    await search.fill('calendar app-1)');
    expect(await apps.locator('label:visible').allInnerTexts()).toEqual(['Collaboration platform', 'Calendar (app-1)']);
    await search.press('Enter');
    expect(page.url()).toBe(`${site.url}/admin/relay-tokens/new`);
    await apps.getByLabel('Calendar (app-1)').check();
    await page.locator('#name').fill('Both');
    await navigateBy(page, () => page.getByRole('button', { name: 'Create relay token' }).click());
    await navigateBy(page, () => page.getByRole('link', { name: 'I have stored it' }).click());
    await expect.poll(() => page.locator('main').innerText()).toContain('Collaboration platform, Calendar (app-1)');
  });
});

describe('a select', () => {
  test('is a field that suggests, and sends the option', async () => {
    const page = await openPage();
    await signInWithBrowser(page, site, ADA);
    await page.goto(`${site.url}/admin/policy`);
    const app = page.getByLabel('Connected app');
    expect(await app.inputValue()).toBe('Collaboration platform');
    await app.fill('calendar (app-1');
    await app.blur();
    expect(await app.inputValue()).toBe('Calendar (app-1)');
    expect(await page.locator('select[name="app"]').inputValue()).toBe('app-1');
    await app.fill('calendar');
    await app.blur();
    // Two apps match: neither is chosen, and the form cannot be sent.
    expect(await page.locator('#app:invalid').count()).toBe(1);
    await app.focus();
    await app.fill('');
    await app.blur();
    expect(await app.inputValue()).toBe('Calendar (app-1)');
  });

  test('has all options without JavaScript', async () => {
    const page = await openPage({ javaScriptEnabled: false });
    await signInWithBrowser(page, site, ADA);
    await page.goto(`${site.url}/admin/connections`);
    await page.getByLabel('App', { exact: true }).selectOption({ label: 'Calendar (app-1)' });
    await navigateBy(page, () => page.getByRole('button', { name: 'Search' }).click());
    expect(page.url()).toBe(`${site.url}/admin/connections?app=app-1`);
  });
});
