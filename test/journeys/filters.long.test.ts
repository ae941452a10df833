/** The filters of lists in a browser: they apply at once, keep the focus and the history, and need no JavaScript. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { startSite, type TestSite } from '../support/gatehouse.ts';
import { navigateBy, signInWithBrowser } from '../support/journey.ts';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site?.close());

const queryOf = (page: Page) => new URL(page.url()).search;
const focusOf = (page: Page) => page.evaluate('document.activeElement.id');

async function openList(path: string, options: Parameters<typeof openPage>[0] = {}): Promise<Page> {
  const page = await openPage(options);
  await signInWithBrowser(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/${path}`);
  return page;
}

test('a chosen filter applies at once, keeps the focus, and Back leads to the list before', async () => {
  const page = await openList('sign-ins');
  await navigateBy(page, () => page.getByLabel('Result').selectOption('refused'));
  await expect.poll(() => queryOf(page)).toBe('?outcome=refused');
  expect(await focusOf(page)).toBe('filter-outcome');
  await navigateBy(page, () => page.getByLabel('Time', { exact: true }).selectOption('week'));
  await expect.poll(() => queryOf(page)).toBe('?outcome=refused&period=week');
  await page.goBack();
  expect(queryOf(page)).toBe('?outcome=refused');
  expect(await page.getByLabel('Result', { exact: true }).inputValue()).toBe('refused');
  await page.goBack();
  expect(queryOf(page)).toBe('');
});

test('the arrow keys change a filter without applying it, and the button applies it', async () => {
  const page = await openList('sign-ins');
  await page.getByLabel('Result').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  expect(await page.getByLabel('Result', { exact: true }).inputValue()).toBe('unsuccessful');
  expect(queryOf(page)).toBe('');
  await navigateBy(page, () => page.getByRole('button', { name: 'Search' }).press('Enter'));
  await expect.poll(() => queryOf(page)).toBe('?outcome=unsuccessful');
});

test('a suggested entry of a long filter applies at once', async () => {
  const page = await openList('audit');
  const event = page.getByLabel('Event');
  await event.click();
  await page.keyboard.type('Signed in');
  expect(queryOf(page)).toBe('');
  await navigateBy(page, () => event.press('Enter'));
  await expect.poll(() => queryOf(page)).toBe('?event=sign_in.succeeded');
  expect(await focusOf(page)).toBe('filter-event');
});

test('Tab leads on from a long filter and does not apply it', async () => {
  const page = await openList('audit');
  const event = page.getByLabel('Event');
  await event.focus();
  await page.keyboard.type('Signed in');
  await page.keyboard.press('Tab');
  expect([queryOf(page), await focusOf(page), await event.inputValue()]).toEqual(['', 'filter-period', 'Signed in']);
  await navigateBy(page, () => page.getByRole('button', { name: 'Search' }).click());
  await expect.poll(() => queryOf(page)).toBe('?event=sign_in.succeeded');
});

test('without JavaScript, the button applies the filters, and a selected session can be ended', async () => {
  const page = await openList('sign-ins', { javaScriptEnabled: false });
  await page.getByLabel('Result').selectOption('succeeded');
  await page.getByText('Filters', { exact: true }).click();
  await page.getByLabel('From (UTC)').fill('2026-01-01');
  await navigateBy(page, () => page.getByRole('button', { name: 'Search' }).click());
  expect(queryOf(page)).toBe('?outcome=succeeded&from=2026-01-01');
  expect(await page.getByLabel('From (UTC)').inputValue()).toBe('2026-01-01');

  await page.goto(`${site.url}/admin/sessions`);
  expect(await page.getByRole('button', { name: 'End sessions…' }).isVisible()).toBe(false);
  await page.locator('tbody [type="checkbox"]').last().check();
  await navigateBy(page, () => page.getByRole('button', { name: 'End sessions…' }).click());
  expect(await page.locator('h1').innerText()).toContain('End the session');
});
