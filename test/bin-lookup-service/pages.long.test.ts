/** The account page in a real browser: narrow and wide, light and dark, without errors or accessibility faults. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { checkOnAllScreens, completeProviderSignIn, navigateBy } from '../support/journey.ts';
import { type BinSite, startBinSiteWithAccounts, statuses } from './site.ts';

const openPage = useBrowser();
let site: BinSite;
beforeAll(async () => {
  site = await startBinSiteWithAccounts();
});
afterAll(() => site?.close());

test('a user registers, chooses a plan and creates a key', async () => {
  const page = await openPage({}, /status of 400/);
  const checkPage = (name: string) => checkOnAllScreens(page, `bin-lookup-service-${name}`);
  await statuses(`${site.url}/45717360`, 300);
  await page.goto(site.url);
  await checkPage('front');
  await navigateBy(page, () => page.getByRole('link', { name: /^Sign in with/ }).click());
  await completeProviderSignIn(page, site);
  await checkPage('empty');
  const choose = page.getByRole('button', { name: 'Choose' }).first();
  await navigateBy(page, () => choose.click());
  await page.getByLabel('Name').fill('Shop');
  await page.locator('#networks').fill('10.0.0.0/8\n192.0.2.1');
  await navigateBy(page, () => page.getByRole('button', { name: 'Create key' }).click());
  expect(await page.locator('.secret-once').innerText()).toMatch(/^gthb_/);
  await checkPage('key');
  await page.getByLabel('Name').fill('Other');
  await page.locator('#networks').fill('anywhere');
  await navigateBy(page, () => page.getByRole('button', { name: 'Create key' }).click());
  await checkPage('fault');
  await page.goto(`${site.url}/account`);
  await page.getByText('Works from:').first().click();
  await checkPage('addresses');
});
