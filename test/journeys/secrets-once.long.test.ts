/** R106 in a real browser: reloading or going back after a form that makes a secret makes no second one and shows nothing. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import type { TestSite } from '../support/gatehouse.ts';
import { leaveBy, lookAround, signInBy } from '../support/journey.ts';
import { startDocumentedSite } from '../support/seen-responses.ts';

/** A form that comes back with its faults is told of on the console; nothing else may be. */
const FAULTY_FORM = /Failed to load resource: the server responded with a status of 400/;

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite();
});
afterAll(() => site?.close());

const secret = (page: Page) => page.locator('.secret-once');
const press = (page: Page, name: string) => leaveBy(page, () => page.getByRole('button', { name }).click());

/** After a secret was made: it can be copied, and neither reloading nor going back and forth brings it again. */
async function expectOnce(page: Page, name: string): Promise<void> {
  expect(await secret(page).count()).toBe(1);
  await page.getByRole('button', { name: 'Copy' }).first().click();
  // Chromium may forbid the clipboard: then the text is selected.
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

test('R106 relay token, its new secret, admin token and webhook', async () => {
  const page = await openPage();
  await signInBy(page, site, 'admin@example.test');

  await page.goto(`${site.url}/admin/relay-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('Reports');
  await page.getByLabel('Collaboration platform').check();
  await press(page, 'Create relay token');
  await expectOnce(page, 'token');
  await leaveBy(page, () => page.getByRole('link', { name: 'Rotate secret' }).click());
  await press(page, 'Create new secret');
  await expectOnce(page, 'token');
  expect(await rowsOf(page, 'relay-tokens')).toBe(1);

  await page.goto(`${site.url}/admin/admin-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('Reports');
  await press(page, 'Create admin token');
  await expectOnce(page, 'token');
  expect(await rowsOf(page, 'admin-tokens')).toBe(1);

  await page.goto(`${site.url}/admin/webhooks/new`);
  await page.getByLabel('URL', { exact: true }).fill('http://127.0.0.1:1/hook');
  await press(page, 'Create webhook');
  await expectOnce(page, 'signing secret');
  expect(await rowsOf(page, 'webhooks')).toBe(1);
});

test('a faulty form names its faults, links to them and has the first in focus', async () => {
  const page = await openPage({}, FAULTY_FORM);
  await signInBy(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/relay-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('Kept <b>');
  await page.getByLabel('Collaboration platform').check();
  await page.getByLabel('Networks').fill('10.0.0.0/99');
  await page.getByLabel('Expires after (days)').fill('1.5');
  await press(page, 'Create relay token');
  expect(await page.title()).toMatch(/^Error: /);
  await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('networks');
  expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Kept <b>');
  await page.getByRole('link', { name: 'Enter a number of days' }).click();
  expect(new URL(page.url()).hash).toBe('#days');
  expect(await page.locator('#days').getAttribute('aria-describedby')).toContain('days-fault');
  expect(await page.locator('#days-fault').textContent()).toContain('1 to 9999');
  await lookAround(page, 'form-faults');
});
