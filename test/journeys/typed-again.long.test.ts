/** What an administrator typed into a form whose session had ended, in a browser in which somebody signs in again. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { navigateBy, signInWithBrowser } from '../support/journey.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../support/send-request.ts';
import { createAdminToken } from '../support/terminal.ts';

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

  const kept = () => page.evaluate<string>('JSON.stringify({ ...sessionStorage })');
  expect(await kept()).toContain('of-ada');
  await signInWithBrowser(page, site, UMA);
  // Not only on the pages of administrators, since the next user may be none.
  expect(await kept()).not.toContain('of-ada');
  await page.goto(addressOf('webhooks/new'));
  expect(await page.locator('#url').inputValue()).toBe('');
  expect(await page.getByText('unsaved').count()).toBe(0);
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

test('R146 is entered again in the rows and boxes where it was, beside what another administrator saved meanwhile', async () => {
  const { path, change, read } = await createApp();
  const [first = ''] = (await read()).callbackUrls;
  const page = await openPage({}, REFUSED);
  await signInWithBrowser(page, site, ADA);
  await page.goto(addressOf(`${path}/settings`));
  const urls = page.locator('[name=callbackUrl]');
  const added = [1, 2, 3, 4, 5].map((number) => `https://ada-${number}.example.test/cb`);
  for (const [index, url] of added.entries()) {
    await page.getByRole('button', { name: 'Add callback URL' }).click();
    await urls.nth(index + 1).fill(url);
  }
  await page.locator('[name=scope][value=email]').uncheck();
  await page.locator('#threadPath').fill('/of/ada');
  await sendWithoutSession(page, '#threadPath');
  await change({
    name: 'Of Uma',
    callbackUrls: [first, 'https://uma.example.test/cb'],
    scopes: ['openid', 'profile', 'email', 'of-uma'],
  });

  await signInWithBrowser(page, site, ADA);
  await page.goto(addressOf(`${path}/settings`));
  const entered = await Promise.all((await urls.all()).map((input) => input.inputValue()));
  expect(entered).toEqual([first, ...added]);
  expect(await page.locator('#threadPath').inputValue()).toBe('/of/ada');
  await navigateBy(page, () => page.locator('#threadPath').press('Enter'));
  await page.getByText(/Kept as .* changed it at .*: Name, Scopes, Callback URLs, Client secret\./).waitFor();
  expect(await read()).toMatchObject({
    name: 'Of Uma',
    threadPath: '/of/ada',
    callbackUrls: [first, 'https://uma.example.test/cb', ...added],
    scopes: ['openid', 'profile', 'of-uma'],
  });
});

test('R146 Back shows what is stored, not what a browser enters again', async () => {
  const { path, change, read } = await createApp();
  const page = await openPage({}, REFUSED);
  await signInWithBrowser(page, site, ADA);
  await page.goto(addressOf(`${path}/settings`));
  await page.goto(addressOf(path));
  await change({ tokenEndpointAuthMethod: 'client_secret_post', dpop: 'off' });
  await page.goBack();
  await page.locator('#threadPath').fill('/of/ada');
  await navigateBy(page, () => page.locator('#threadPath').press('Enter'));
  expect(await read()).toMatchObject({
    threadPath: '/of/ada',
    tokenEndpointAuthMethod: 'client_secret_post',
    dpop: 'off',
  });
});

let count = 0;
/** Creates an app that an admin token, which is another administrator, can change. */
async function createApp() {
  count += 1;
  const id = `app-${count}`;
  const headers = { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${await createAdminToken(site)}` };
  const call = async (method: string, path: string, registration?: object) => {
    const body = registration && JSON.stringify(registration);
    const response = await sendRequest(`${site.url}/admin/api/connected-apps${path}`, {
      method,
      headers,
      ...(body && { body }),
    });
    expect(response.status, response.body).toBeLessThan(300);
    return JSON.parse(response.body);
  };
  const callbackUrls = [`${site.url}/oauth/callback/${id}`];
  const app = { ...sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, signIn: undefined }), callbackUrls };
  await call('POST', '', { ...app, id });
  const read = () => call('GET', `/${id}`);
  return {
    path: `connected-apps/${id}`,
    read,
    change: async (changes: object) =>
      call('PUT', `/${id}`, { ...app, ...changes, id, version: (await read()).version }),
  };
}
