/** Steps of users in a real browser, and checks for every page. */
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { PASSWORD } from './gatehouse.ts';

/** Fills the provider's forms until the browser is back at Gatehouse. */
export async function completeProviderSignIn(
  page: Page,
  site: { url: string },
  login = 'user@example.test',
): Promise<void> {
  for (let step = 0; step < 4 && !page.url().startsWith(`${site.url}/`); step += 1) {
    const loginField = page.locator('input[name=login]');
    if ((await loginField.count()) > 0) {
      await loginField.fill(login);
      await page.locator('input[name=password]').fill(PASSWORD);
      await navigateBy(page, () => page.getByRole('button', { name: 'Sign in' }).click());
    } else {
      await navigateBy(page, () => page.getByRole('button', { name: 'Allow' }).click());
    }
  }
  expect(page.url().startsWith(`${site.url}/`), page.url()).toBe(true);
}

export async function signInWithBrowser(page: Page, site: { url: string }, login?: string): Promise<void> {
  await page.goto(`${site.url}/`);
  await navigateBy(page, () => page.getByRole('link', { name: /^Sign in with/ }).click());
  await completeProviderSignIn(page, site, login);
}

/** Signs out with the menu of the user, in the header of every page. */
export async function signOutFromMenu(page: Page): Promise<void> {
  await page.locator('.menu-user > summary').click();
  await navigateBy(page, () => page.getByRole('button', { name: 'Sign out', exact: true }).click());
}

/** The id of the user who is signed in. */
export async function userIdOf(page: Page, site: { url: string }): Promise<string> {
  const { user } = await jsonOf(page, `${site.url}/session`);
  return user.id;
}

/** Gets JSON with the cookies of this browser. */
export async function jsonOf(page: Page, url: string) {
  return (await page.request.get(url, { headers: { accept: 'application/json' } })).json();
}

/** Does an action that navigates, and waits for the new page. */
export async function navigateBy(page: Page, act: () => Promise<unknown>): Promise<void> {
  await Promise.all([page.waitForEvent('framenavigated'), act()]);
  await page.waitForLoadState('load');
}

/** Expects that no part of the page is wider than the window. */
export async function expectFitsWindow(page: Page): Promise<void> {
  const widths = (await page.evaluate(
    '({ content: document.documentElement.scrollWidth, window: document.documentElement.clientWidth })',
  )) as { content: number; window: number };
  expect(widths.content, `${page.url()} is wider than its window`).toBeLessThanOrEqual(widths.window);
}

/** The last screen stays set, so a page that reads the width only while it loads is then tested on a phone. */
const SCREENS = [
  { width: 1440, scheme: 'dark' },
  { width: 1440, scheme: 'light' },
  { width: 360, scheme: 'dark' },
  { width: 360, scheme: 'light' },
] as const;

/** Expects that the page fits a wide screen and a small phone, dark and light. */
export async function checkOnAllScreens(page: Page, name: string): Promise<void> {
  for (const { width, scheme } of SCREENS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme: scheme });
    await expectFitsWindow(page);
    await saveScreenshot(page, `${name}-${width}-${scheme}`);
  }
}

/** Saves a picture of the page if `SCREENSHOTS` names a folder. No test compares these pictures. */
export async function saveScreenshot(page: Page, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS;
  // `animations` skips the transition of colours from dark to light.
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true, animations: 'disabled' });
}
