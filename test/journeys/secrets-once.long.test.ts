/** R106 in a real browser: after a secret is created, reloading or going back neither creates nor shows a secret. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import type { TestSite } from '../support/gatehouse.ts';
import { checkOnAllScreens, navigateBy, signInWithBrowser } from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';

/** The console error of a form with faults. Others are not allowed. */
const FAULTY_FORM = /Failed to load resource: the server responded with a status of 400/;

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite();
});
afterAll(() => site?.close());

const secret = (page: Page) => page.locator('.secret-once');
const press = (page: Page, name: string) => navigateBy(page, () => page.getByRole('button', { name }).click());

/** Expects that a new secret can be copied, and is not shown again after reloading or going back and forth. */
async function expectOnce(page: Page, name: string): Promise<void> {
  expect(await secret(page).count()).toBe(1);
  await page.getByRole('button', { name: 'Copy' }).first().click();
  // If Chromium forbids the clipboard, the text is selected.
  await page.getByText(new RegExp(`^The ${name} is (copied|selected)\\.$`)).waitFor();
  await page.reload();
  expect(await secret(page).count()).toBe(0);
  await page.goBack();
  expect(await secret(page).count()).toBe(0);
  await page.goForward();
  expect(await secret(page).count()).toBe(0);
}

async function rowsOf(page: Page, path: string): Promise<number> {
  await page.goto(`${site.url}/admin/${path}`);
  return page.locator('tbody tr').count();
}

test('R106 relay tokens, rotated secrets, admin tokens and webhooks show their secret once', async () => {
  const page = await openPage();
  await signInWithBrowser(page, site, 'admin@example.test');

  await page.goto(`${site.url}/admin/relay-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('Reports');
  await page.getByLabel('Collaboration platform').check();
  await press(page, 'Create relay token');
  await expectOnce(page, 'relay token');
  await navigateBy(page, () => page.getByRole('link', { name: 'Rotate secret' }).click());
  await press(page, 'Create new secret');
  await expectOnce(page, 'relay token');
  expect(await rowsOf(page, 'relay-tokens')).toBe(1);

  await page.goto(`${site.url}/admin/admin-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('Reports');
  await press(page, 'Create admin token');
  await expectOnce(page, 'admin token');
  expect(await rowsOf(page, 'admin-tokens')).toBe(1);

  await page.goto(`${site.url}/admin/webhooks/new`);
  await page.getByLabel('URL', { exact: true }).fill('http://127.0.0.1:1/hook');
  await press(page, 'Create webhook');
  await expectOnce(page, 'signing secret');
  expect(await rowsOf(page, 'webhooks')).toBe(1);
});

test('R106 Back after "I have stored it" shows no secret', async () => {
  const page = await openPage();
  await signInWithBrowser(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/admin-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('Stored');
  await press(page, 'Create admin token');
  const text = String(await secret(page).textContent());
  await checkOnAllScreens(page, 'new-secret');
  await navigateBy(page, () => page.getByRole('link', { name: 'I have stored it' }).click());
  expect(new URL(page.url()).pathname).toBe('/admin/admin-tokens');
  await page.goBack();
  await expect.poll(() => secret(page).count()).toBe(0);
  expect(await page.content()).not.toContain(text);
});

test('a form with faults lists them with links, and focuses the first', async () => {
  const page = await openPage({}, FAULTY_FORM);
  await signInWithBrowser(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/relay-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('Kept <b>');
  await page.getByLabel('Collaboration platform').check();
  await page.getByLabel('Networks').fill('10.0.0.0/99');
  await page.getByLabel('On a date').check();
  await press(page, 'Create relay token');
  expect(await page.title()).toMatch(/^Error: /);
  await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('networks');
  expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Kept <b>');
  await page.getByRole('link', { name: 'Enter a date' }).click();
  expect(new URL(page.url()).hash).toBe('#expiresOn');
  expect(await page.locator('#expiresOn').getAttribute('aria-describedby')).toContain('expiresOn-fault');
  expect(await page.locator('#expiresOn-fault').textContent()).toContain('2027-01-31');
  await checkOnAllScreens(page, 'form-faults');
});
