/** The filters of a list, in a browser without a cache for Back: it enters again what was chosen before. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../../support/browser.ts';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { navigateBy, signInWithBrowser } from '../../support/journey.ts';
import { openStorageOf } from '../grants/storage-access.ts';
import { createAdministrator } from '../relay/service.ts';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
  // A list without a record has no filters.
  const storage = await openStorageOf(site);
  await (await createAdministrator(site, storage)).createRelayToken();
  await storage.close();
});
afterAll(() => site?.close());

test('Back shows the filters of the list that is shown, and not those chosen since', async () => {
  const page = await openPage();
  await signInWithBrowser(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/relay-tokens`);
  const filter = page.locator('#filter-app');
  await navigateBy(page, () => filter.selectOption({ index: 1 }));
  expect(await filter.inputValue()).not.toBe('');
  await page.goBack({ waitUntil: 'load' });
  expect([page.url(), await filter.inputValue()]).toEqual([`${site.url}/admin/relay-tokens`, '']);
});
