/** What an administrator typed into a form whose session had ended, in a browser in which somebody signs in again. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { navigateBy, signInWithBrowser } from '../support/journey.ts';

const ADA = 'admin@example.test';
const UMA = 'user@example.test';
const TYPED = 'Typed by Ada';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite({ env: { ADMIN_CLAIM: 'sub', ADMIN_VALUES: 'sbx-00u1,sbx-00u3' } });
});
afterAll(() => site?.close());

const REFUSED = /status of (40[139]|503)/;
const addressOf = (path: string) => `${site.url}/admin/${path}`;

/** Sends what is typed into the form after the session has ended. */
async function sendWithoutSession(page: Page, field: string): Promise<void> {
  await page.context().clearCookies();
  await navigateBy(page, () => page.locator(field).press('Enter'));
  await page.getByRole('link', { name: 'Sign in' }).first().waitFor();
}

test('is not shown to another user who signs in next, on the same page', async () => {
  const page = await openPage({}, REFUSED);
  await signInWithBrowser(page, site, ADA);
  await page.goto(addressOf('webhooks/new'));
  await page.locator('#url').fill('https://of-ada.example.test/hook');
  await sendWithoutSession(page, '#url');

  await signInWithBrowser(page, site, UMA);
  await page.goto(addressOf('webhooks/new'));
  expect(await page.locator('#url').inputValue()).toBe('');
  expect(await page.getByText('unsaved').count()).toBe(0);
  expect(await page.evaluate('JSON.stringify({ ...sessionStorage })')).not.toContain('of-ada');
});

test('does not undo what another administrator saved meanwhile, without a word', async () => {
  const { agent } = await signIn(site, UMA, { path: '/sign-in?return_to=/admin' });
  const newToken = await agent.get(addressOf('relay-tokens/new'));
  const created = await agent.submit(newToken, { name: 'Nightly', apps: 'platform' }, { button: 'Create relay token' });
  const path = new URL(created.url).pathname;

  const page = await openPage({}, REFUSED);
  await signInWithBrowser(page, site, ADA);
  await page.goto(`${site.url}${path}/edit`);
  await page.locator('#name').fill(TYPED);
  await sendWithoutSession(page, '#name');
  const edit = await agent.get(`${site.url}${path}/edit`);
  expect((await agent.submit(edit, { name: 'Saved by Uma' })).status).toBe(200);

  await signInWithBrowser(page, site, ADA);
  await page.goto(`${site.url}${path}/edit`);
  expect(await page.locator('#name').inputValue()).toBe(TYPED);
  await navigateBy(page, () => page.locator('#name').press('Enter'));
  await page.getByText('changed “Name” to “Saved by Uma”').first().waitFor();
  expect((await agent.get(site.url + path)).body).toContain('Saved by Uma');
});

test('is entered again after any refusal, and no cause is told that nothing shows', async () => {
  const page = await openPage({}, REFUSED);
  await signInWithBrowser(page, site, ADA);
  await page.goto(addressOf('webhooks/new'));
  await page.locator('#url').fill('https://of-ada.example.test/hook');
  await page.route(addressOf('webhooks'), (route) => route.fulfill({ status: 503, body: 'The server is busy.' }));
  await navigateBy(page, () => page.locator('#url').press('Enter'));

  await page.goto(addressOf('webhooks/new'));
  await page.getByText('Sent, but not confirmed as saved. 1 unsaved change').waitFor();
  expect(await page.locator('#url').inputValue()).toBe('https://of-ada.example.test/hook');
});
