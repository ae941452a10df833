/** Confirmation in a real browser: as a dialog by keyboard, and as a page without JavaScript. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { useBrowser } from '../../support/browser.ts';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy } from '../../support/journey.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
beforeEach(async () => {
  for (const name of ['first', 'second', 'third']) await admin.createRelayToken({ name });
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

async function openTokens(page: Page): Promise<void> {
  await page.goto(`${site.url}/sign-in`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/relay-tokens`);
}

const focusedText = (page: Page) => page.evaluate('document.activeElement.textContent.trim()');
const countRows = (page: Page) => page.locator('tbody tr').count();

test('a menu and its dialog by keyboard: Cancel has the focus, Esc closes, and the focus returns', async () => {
  const page = await openPage();
  await openTokens(page);
  const rowsBefore = await countRows(page);
  await page.locator('.menu-row summary').first().focus();
  await page.keyboard.press('Enter');
  const revoke = page.getByRole('link', { name: 'Revoke…' }).first();
  await revoke.focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Revoke the relay token third?' });
  await dialog.waitFor();
  expect(await focusedText(page)).toBe('Cancel');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await expect.poll(() => focusedText(page)).toBe('Actions for third');

  // A click outside the dialog also closes it, but not a click on its edge.
  await page.keyboard.press('Enter');
  await revoke.click();
  await dialog.waitFor();
  await dialog.click({ position: { x: 6, y: 6 } });
  expect(await dialog.isVisible()).toBe(true);
  await page.mouse.click(2, 2);
  await dialog.waitFor({ state: 'hidden' });
  await expect.poll(() => focusedText(page)).toBe('Actions for third');

  // The button Cancel also closes it.
  await page.keyboard.press('Enter');
  await revoke.click();
  await dialog.waitFor();
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'hidden' });
  await expect.poll(() => focusedText(page)).toBe('Actions for third');
  expect([page.url(), await countRows(page)]).toEqual([`${site.url}/admin/relay-tokens`, rowsBefore]);

  // In the open menu, Escape closes the menu.
  await page.keyboard.press('Enter');
  expect(await revoke.isVisible()).toBe(true);
  await page.keyboard.press('Escape');
  expect([await revoke.isVisible(), await focusedText(page)]).toEqual([false, 'Actions for third']);

  await page.keyboard.press('Enter');
  await revoke.click();
  await dialog.waitFor();
  await navigateBy(page, () => page.getByRole('button', { name: 'Revoke relay token' }).click());
  expect(await page.getByText('Relay token revoked.').count()).toBe(1);
  expect(await countRows(page)).toBe(rowsBefore - 1);
});

test('shows the question that was requested last, even if an earlier one arrives later', async () => {
  const page = await openPage();
  await openTokens(page);
  const answers = new Map<string, () => void>();
  await page.route('**/admin/relay-tokens/*/revoke*', async (route) => {
    const response = await route.fetch();
    const name = /the relay token <bdi>(\w+)/.exec(await response.text())?.[1] ?? '';
    await new Promise<void>((resolve) => answers.set(name, resolve));
    await route.fulfill({ response });
  });
  // The menu of a row covers those of the rows below.
  for (const name of ['second', 'third']) {
    await page
      .locator('.menu-row summary', { hasText: `Actions for ${name}` })
      .first()
      .click();
    await page.locator('.menu-row[open]').getByRole('link', { name: 'Revoke…' }).click();
    await expect.poll(() => [...answers.keys()]).toContain(name);
  }
  const deliverResponse = async (name: string) => {
    const event = page.waitForEvent('requestfinished', (request) => request.url().includes('/revoke'));
    answers.get(name)?.();
    await event;
  };
  await deliverResponse('third');
  await page.getByRole('dialog', { name: 'Revoke the relay token third?' }).waitFor();
  await deliverResponse('second');
  // Time for the script to read the late response, which it must ignore.
  await page.waitForTimeout(100);
  expect(await page.getByRole('dialog').getByRole('heading').innerText()).toBe('Revoke the relay token third?');
});

test('selected rows are counted and confirmed together', async () => {
  const page = await openPage();
  await openTokens(page);
  const rowsBefore = await countRows(page);
  const bar = page.locator('.bulk-bar');
  expect(await bar.isVisible()).toBe(false);
  await page.getByLabel('Select first').first().check();
  await page.getByLabel('Select second').first().check();
  expect(await bar.innerText()).toMatch(/^2 selected/);
  await page.getByLabel(/^Select all/).check();
  expect(await bar.innerText()).toMatch(new RegExp(`^${rowsBefore} selected`));
  await page.getByLabel(/^Select all/).uncheck();
  expect(await bar.isVisible()).toBe(false);
  await page.getByLabel('Select first').first().check();
  await page.getByLabel('Select second').first().check();
  await page.getByRole('button', { name: 'Revoke…' }).click();
  await page.getByRole('dialog', { name: 'Revoke 2 relay tokens?' }).waitFor();
  expect(await focusedText(page)).toBe('Cancel');
  await navigateBy(page, () => page.getByRole('button', { name: 'Revoke 2 relay tokens' }).click());
  expect(await countRows(page)).toBe(rowsBefore - 2);
});

test('without JavaScript, the menu opens, the question is a page, and several rows can be selected', async () => {
  const page = await openPage({ javaScriptEnabled: false });
  await openTokens(page);
  const rowsBefore = await countRows(page);
  // Actions that need a script are hidden.
  expect(await page.getByLabel(/^Select all/).isVisible()).toBe(false);
  await page.locator('.menu-row summary').first().click();
  await navigateBy(page, () => page.getByRole('link', { name: 'Revoke…' }).first().click());
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Revoke the relay token third?');
  await navigateBy(page, () => page.getByRole('link', { name: 'Cancel' }).click());
  expect(await countRows(page)).toBe(rowsBefore);

  await page.getByLabel('Select first').first().check();
  await page.getByLabel('Select second').first().check();
  await navigateBy(page, () => page.locator('.bulk-bar').getByRole('button').click());
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Revoke 2 relay tokens?');
  await navigateBy(page, () => page.getByRole('button', { name: 'Revoke 2 relay tokens' }).click());
  expect(await page.getByText('2 relay tokens revoked.').count()).toBe(1);
  expect(await countRows(page)).toBe(rowsBefore - 2);
});
