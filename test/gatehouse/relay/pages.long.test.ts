/** The relay's pages of the administration in a browser: they fit a phone, and a token is changed on its page. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../../support/browser.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { checkOnAllScreens, navigateBy, signInWithBrowser } from '../../support/journey.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator, relayThread } from './service.ts';

const LONG_NAME = 'Reports of the whole company, for the people who read reports of the whole company';

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let tokenId: string;
let webhookId: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const longToken = await admin.createRelayToken({ name: LONG_NAME, users: [userId], assertUser: true });
  tokenId = longToken.id;
  // One call that is allowed, and one that is refused.
  for (const user of [userId, 'uOtherUser']) await relayThread(site, longToken.token, { 'gatehouse-user': user });
  await admin.createRelayToken({ name: 'Nightly', users: 'none', scopes: ['bin:read'], networks: [] });
  const { accessToken: apiToken } = await storage.readGrant(userId);
  await admin.call('POST', '/service-accounts', { name: LONG_NAME, app: 'platform', apiToken });
  const url = `${site.url}/nobody/listens/here/but/the/address/is/rather/long/all/the/same`;
  const webhook = await admin.call('POST', '/webhooks', { url, events: ['connection.created', 'connection.removed'] });
  webhookId = String(webhook.json.id);
  await signIn(site, 'second@example.test');
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

test('the pages of the relay fit every screen, and a token and a webhook are changed on their pages', async () => {
  const page = await openPage({}, /status of 40\d/);
  const check = (name: string) => checkOnAllScreens(page, `relay-${name}`);
  const visit = async (path: string, name: string) => {
    await page.goto(`${site.url}${path}`);
    await check(name);
  };
  await signInWithBrowser(page, site, 'admin@example.test');
  await visit('/admin/relay-tokens', 'tokens');
  await visit(`/admin/relay-tokens/${tokenId}`, 'token');
  await renameToken(page, 'Renamed', check);
  await visit('/admin/service-accounts', 'accounts');
  await visit('/admin/policy', 'policy');
  await visit(`/admin/policy?token=${tokenId}&scope=threads:read&app=platform&user=u1&address=10.0.0.1`, 'refused');
  await visit('/admin/webhooks', 'webhooks');
  await visit(`/admin/webhooks/${webhookId}`, 'webhook');
  for (const isDisabled of [true, false]) {
    await visit(`/admin/webhooks/${webhookId}/edit`, 'webhook-edit');
    await page.getByLabel('Disabled').setChecked(isDisabled);
    await navigateBy(page, () => page.getByRole('button', { name: 'Save' }).click());
    await check('webhook-changed');
    expect((await admin.call('GET', `/webhooks/${webhookId}`)).json.disabled).toBe(isDisabled);
  }
});

/** Renames the token on its page, first with a faulty network, which the page shows. */
async function renameToken(page: Page, name: string, check: (name: string) => Promise<void>): Promise<void> {
  await navigateBy(page, () => page.getByRole('link', { name: 'Edit', exact: true }).click());
  await page.getByLabel('Name', { exact: true }).fill(name);
  await page.getByLabel('Networks').fill('10.0.0.1/8');
  await navigateBy(page, () => page.getByRole('button', { name: 'Save' }).click());
  await check('token-faulty');
  await page.getByLabel('Networks').fill('127.0.0.0/8');
  await navigateBy(page, () => page.getByRole('button', { name: 'Save' }).click());
  await check('token-changed');
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe(name);
}
