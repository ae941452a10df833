/**
 * Every page that links reach is valid HTML, and axe-core finds no violations on these pages, on forms with faults, and on
 * a new secret, from 320 to 1,440 px, light and dark.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStorageOf, sessionOf } from '../gatehouse/grants/storage-access.ts';
import { bearer, createAdministrator } from '../gatehouse/relay/service.ts';
import { violationsAt, violationsOn } from '../support/axe.ts';
import { useBrowser } from '../support/browser.ts';
import { crawl } from '../support/crawl.ts';
import { sandboxApp, signIn, type TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy } from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';
import { JSON_BODY, sendRequest } from '../support/send-request.ts';
import { expectValid } from '../support/valid-html.ts';

const FAULTY_FORM = /Failed to load resource: the server responded with a status of 40\d/;

const openBrowser = useBrowser();
// axe adds a style, which the content security policy forbids.
const openPage = () => openBrowser({ bypassCSP: true }, FAULTY_FORM);
let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite({
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second', { name: 'Second platform' })],
    env: { ADMIN_APP: 'platform' },
  });
});
afterAll(() => site?.close());

test('pages of administrators, and forms with faults, are accessible', async () => {
  const storage = await openStorageOf(site);
  const admin = await createAdministrator(site, storage);
  const { token } = await admin.createRelayToken({ expiresAt: new Date(Date.now() + 3_600_000).toISOString() });
  const { token: assertingToken } = await admin.createRelayToken({ name: 'second', assertUser: true });
  expect(token).toMatch(/^gthr_/);
  const { userId: user } = await sessionOf(
    site,
    (await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' })).agent,
  );
  const link = {
    method: 'POST',
    headers: { ...bearer(assertingToken), ...JSON_BODY },
    body: JSON.stringify({ userId: user, app: 'platform' }),
  };
  expect(await sendRequest(`${site.url}/relay/connect-links`, link)).toMatchObject({ status: 201 });
  await admin.call('POST', '/webhooks', { url: `${site.sandbox.platformUrl}/hook`, events: ['connection.created'] });
  await signIn(site, 'second@example.test', { path: '/sign-in?app=second' });
  await storage.close();

  const page = await openPage();
  await page.goto(`${site.url}/sign-in?app=platform`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  const pages = await crawl(agent, `${site.url}/admin`);
  await expectValid(...pages);
  const urls = pages.filter(({ status }) => status === 200).map(({ url }) => url);
  expect(urls.filter((url) => url.includes('/admin')).length).toBeGreaterThan(40);
  expect(await violationsAt(page, urls)).toEqual([]);

  for (const [path, button] of [
    ['admin/relay-tokens/new', 'Create relay token'],
    ['admin/admin-tokens/new', 'Create admin token'],
  ] as const) {
    await page.goto(`${site.url}/${path}`);
    await page.evaluate('for (const form of document.forms) form.noValidate = true');
    await navigateBy(page, () => page.getByRole('button', { name: button }).click());
    expect(await violationsOn(page)).toEqual([]);
  }
  await page.goto(`${site.url}/admin/admin-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('new');
  await navigateBy(page, () => page.getByRole('button', { name: 'Create admin token' }).click());
  await page.getByRole('link', { name: 'I have stored it' }).waitFor();
  expect(await violationsOn(page)).toEqual([]);
  await page.goto(`${site.url}/admin/relay-tokens`);
  await page.locator('.menu-row summary').first().click();
  expect(await violationsOn(page)).toEqual([]);
  await page.getByRole('link', { name: 'Revoke…' }).first().click();
  await page.getByRole('dialog').waitFor();
  expect(await violationsOn(page)).toEqual([]);
});

test('pages of users are accessible', async () => {
  const page = await openPage();
  const paths = ['/', '/sign-in', '/nowhere', '/problems/not_found'];
  expect(
    await violationsAt(
      page,
      paths.map((path) => site.url + path),
    ),
  ).toEqual([]);
  await page.goto(`${site.url}/sign-in?app=platform`);
  await completeProviderSignIn(page, site);
  const { agent } = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  const pages = await crawl(agent, `${site.url}/`);
  await expectValid(...pages);
  const urls = pages.filter(({ status }) => status === 200).map(({ url }) => url);
  expect(urls.length).toBeGreaterThan(5);
  expect(await violationsAt(page, urls)).toEqual([]);
});
