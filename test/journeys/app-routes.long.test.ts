/** The routes of an app in a real browser: their patterns are checked while an administrator types. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { CLIENT_SECRET, type TestSite } from '../support/gatehouse.ts';
import { checkOnAllScreens, completeProviderSignIn, navigateBy } from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';

/** The console error of a form with faults. Others are not allowed. */
const FAULTY_FORM = /Failed to load resource: the server responded with a status of 400/;

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite();
});
afterAll(() => site?.close());

test('a pattern is checked while typing, with the words that follow when the form is saved', async () => {
  const page = await openPage({ viewport: { width: 360, height: 800 } }, FAULTY_FORM);
  const save = () => navigateBy(page, () => page.locator('button[value=save]:not(.visually-hidden)').last().click());
  await page.goto(`${site.url}/sign-in`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/register-app`);
  await page.getByLabel('ID', { exact: true }).fill('second');
  await page.getByLabel('Name', { exact: true }).fill('Second');
  await page.getByLabel('Issuer', { exact: true }).fill(site.sandbox.issuer);
  await navigateBy(page, () => page.getByRole('button', { name: 'Continue' }).click());
  await page.getByLabel('Client ID', { exact: true }).fill('test-second');
  await page.getByLabel('Client secret', { exact: true }).fill(CLIENT_SECRET);
  await page.getByLabel('API base URL of the platform').fill(site.sandbox.platformUrl);
  await save();
  await page.goto(`${site.url}/admin/connected-apps/second/settings`);

  await page.getByText('Add, change or remove routes').click();
  const row = (legend: string) => page.getByRole('group', { name: legend, exact: true });
  const fault = page.locator('.route-row .form-fault');
  await row('Route 1').getByLabel('Route name').fill('thread');
  await row('Route 1').getByLabel('Pattern').fill('/1/threads/../{id}');
  await fault.waitFor();
  const words = await fault.textContent();
  await checkOnAllScreens(page, 'routes-check');
  await save();
  expect(await fault.textContent()).toBe(words);
  await row('Route 1').getByLabel('Pattern').fill('/1/threads/{id}');
  await fault.waitFor({ state: 'detached' });
  await save();
  expect(await page.getByText('Saved. The change').isVisible()).toBe(true);

  await page.getByText('Add, change or remove routes').click();
  const addRoute = async (place: string, name: string) => {
    await page.getByRole('button', { name: 'Add route' }).click();
    await row(place).getByLabel('Route name').fill(name);
    await row(place).getByLabel('Pattern').fill('/1/threads/{other}');
    await fault.getByText('The route "thread" matches').waitFor();
  };
  // Neither a removed rival nor one of another method is in the way.
  await addRoute('Route 2', 'gone');
  await page.getByRole('button', { name: 'Remove Route 2' }).click();
  await fault.waitFor({ state: 'detached' });
  await addRoute('Route 2', 'other');
  await row('Route 2').getByLabel('Method').selectOption('DELETE');
  await fault.waitFor({ state: 'detached' });
  await save();
  await page.goto(`${site.url}/admin/connected-apps/second`);
  await checkOnAllScreens(page, 'routes');
  expect(await page.getByText('GET /1/threads/{id}').isVisible()).toBe(true);
  expect(await page.getByText('DELETE /1/threads/{other}').isVisible()).toBe(true);
});
