/** The search field in the header, in a browser: `/` focuses it, except in another field. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../../../support/browser.ts';
import { startSite, type TestSite } from '../../../support/gatehouse.ts';
import { completeProviderSignIn } from '../../../support/journey.ts';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

test('`/` focuses the field, and Enter finds the user', async () => {
  const page = await openPage();
  await page.goto(`${site.url}/sign-in`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/users`);
  const field = page.getByLabel('Search everything');

  // In another field, `/` is entered as a character.
  const listSearch = page.locator('main [type="search"]');
  await listSearch.focus();
  await page.keyboard.press('/');
  expect([await listSearch.inputValue(), await field.inputValue()]).toEqual(['/', '']);

  await listSearch.blur();
  await page.keyboard.press('/');
  expect(await page.evaluate('document.activeElement?.id')).toBe('admin-search');
  await page.keyboard.type('admin@example.test');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/admin\/users\/u[\w-]{22}$/);
});
