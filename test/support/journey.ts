/** The steps of users in a real browser, and the checks that hold on every page they see. */
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { PASSWORD } from './gatehouse.ts';

/** Fills the provider's forms until the browser is back at Gatehouse. */
export async function throughProvider(page: Page, site: { url: string }, login = 'user@example.test'): Promise<void> {
  for (let step = 0; step < 4 && !page.url().startsWith(`${site.url}/`); step += 1) {
    const loginField = page.locator('input[name=login]');
    if ((await loginField.count()) > 0) {
      await loginField.fill(login);
      await page.locator('input[name=password]').fill(PASSWORD);
      await leaveBy(page, () => page.getByRole('button', { name: 'Sign in' }).click());
    } else {
      await leaveBy(page, () => page.getByRole('button', { name: 'Allow' }).click());
    }
  }
  expect(page.url().startsWith(`${site.url}/`), page.url()).toBe(true);
}

export async function signInBy(page: Page, site: { url: string }, login?: string): Promise<void> {
  await page.goto(`${site.url}/`);
  await leaveBy(page, () => page.getByRole('link', { name: /^Sign in with/ }).click());
  await throughProvider(page, site, login);
}

/** The id of the user who is signed in. */
export async function userIdOf(page: Page, site: { url: string }): Promise<string> {
  const { user } = await jsonOf(page, `${site.url}/session`);
  return user.id;
}

/** What a script gets with the cookies of this browser. */
export async function jsonOf(page: Page, url: string) {
  return (await page.request.get(url, { headers: { accept: 'application/json' } })).json();
}

/** Does what makes the page another one, and waits for that one. */
export async function leaveBy(page: Page, act: () => Promise<unknown>): Promise<void> {
  await Promise.all([page.waitForEvent('framenavigated'), act()]);
  await page.waitForLoadState('load');
}

/** No part of the page is wider than the window. */
export async function expectNoSideways(page: Page): Promise<void> {
  const widths = (await page.evaluate(
    '({ content: document.documentElement.scrollWidth, window: document.documentElement.clientWidth })',
  )) as { content: number; window: number };
  expect(widths.content, `${page.url()} is wider than its window`).toBeLessThanOrEqual(widths.window);
}

/** The last is how the page stays, and goes on: what a page decides once, while it loads, is seen on a telephone. */
const LOOKS = [1440, 360].flatMap((width) => (['dark', 'light'] as const).map((scheme) => ({ width, scheme })));

/** Looks at the page on a wide screen and on a small telephone, dark and light: it fits each of them. */
export async function lookAround(page: Page, name: string): Promise<void> {
  for (const { width, scheme } of LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme: scheme });
    await expectNoSideways(page);
    await picture(page, `${name}-${width}-${scheme}`);
  }
}

/** Saves a picture of the page where `SCREENSHOTS` names a folder: for eyes, no test compares them. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS;
  // A colour on its way from dark to light is taken at its end.
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true, animations: 'disabled' });
}
