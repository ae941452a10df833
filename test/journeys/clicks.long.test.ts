/**
 * Tasks of an administrator in a real browser, each in at most three clicks from the overview. Typing and Enter in the
 * search do not count. register-app.long.test.ts registers an app; services-in-administration.long.test.ts creates a
 * relay token and a webhook, and tests a call.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess, sessionOf } from '../gatehouse/grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { getJson, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { navigateBy, signInWithBrowser } from '../support/journey.ts';

const MAX_CLICKS = 3;
const BIN_FILE = `BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName
40001234,VISA,DEBIT,,Example Bank,,,DK,,
`;

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let page: Page;
let clicks: number;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});
beforeEach(async () => {
  page = await openPage();
  await signInWithBrowser(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin`);
  clicks = 0;
});

type Role = 'link' | 'button';
const named = (role: Role, name: string) => page.getByRole(role, { name, exact: true }).first();

/** Clicks and waits for another page. */
async function click(role: Role, name: string): Promise<void> {
  clicks += 1;
  await navigateBy(page, () => named(role, name).click());
}

/** Clicks to open a menu or a dialog. */
async function open(role: Role, name: string): Promise<void> {
  clicks += 1;
  await named(role, name).click();
}

async function search(text: string): Promise<void> {
  await page.keyboard.press('/');
  await page.keyboard.type(text);
  await navigateBy(page, () => page.keyboard.press('Enter'));
}

async function confirm(name: string): Promise<void> {
  const button = page.getByRole('dialog').getByRole('button', { name, exact: true });
  await button.waitFor();
  clicks += 1;
  await navigateBy(page, () => button.click());
}

async function expectDone(words: string | RegExp): Promise<void> {
  await page.getByText(words).first().waitFor();
  expect(clicks).toBeLessThanOrEqual(MAX_CLICKS);
}

test('checks an app', async () => {
  await click('link', 'Apps');
  await click('link', 'Collaboration platform');
  await click('button', 'Check now');
  await expectDone(/^No problems found/);
});

test('finds a failed sign-in by the reference of its error page', async () => {
  const { json } = await admin.call('GET', '/sign-ins?limit=1');
  const [record] = json.items as { id: string }[];
  await search(String(record?.id));
  await expectDone(String(record?.id));
  expect(clicks).toBe(0);
});

test('ends all sessions of a user', async () => {
  const { agent } = await signIn(site, 'second@example.test');
  await search('second@example.test');
  await open('link', 'Sign out everywhere…');
  await confirm('Sign out everywhere');
  await expectDone(/Signed out|signed out/);
  expect((await getJson(agent, `${site.url}/threads/current`)).status).toBe(401);
});

test('disconnects a connection', async () => {
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  await search('user@example.test');
  clicks += 1;
  await page.locator('.menu-row summary').first().click();
  await open('link', 'Disconnect…');
  await confirm('Disconnect');
  await expectDone(/[Dd]isconnected/);
  expect(await storage.grants.loadStored(userId, 'platform')).toBeUndefined();
});

test('imports BIN data and rolls back', async () => {
  for (const name of ['first.csv', 'second.csv']) {
    await page.goto(`${site.url}/admin`);
    clicks = 0;
    await search('BIN data');
    await click('link', 'Import BIN data');
    await page.getByLabel('Date of the data').fill('2026-11-20');
    const buffer = Buffer.from(BIN_FILE);
    await page.getByLabel('File', { exact: true }).setInputFiles({ name, mimeType: 'text/csv', buffer });
    await click('button', 'Check file');
    await click('button', 'Import 1 row');
    await expectDone(`Imported 1 row of ${name}.`);
  }
  await page.goto(`${site.url}/admin`);
  clicks = 0;
  await search('BIN data');
  await open('link', 'Roll back…');
  await confirm('Roll back');
  await expectDone('Rolled back to first.csv.');
});

test('publishes the next signing key', async () => {
  await click('link', 'Settings');
  await click('button', 'Publish the next key now');
  await expectDone(/published/i);
});

test('filters the audit trail by day', async () => {
  await click('link', 'Activity');
  await click('link', 'Audit');
  await page.getByText('Filters', { exact: true }).click();
  clicks += 1;
  await page.getByLabel('From').fill('2026-11-20');
  await navigateBy(page, () => page.getByLabel('From').press('Enter'));
  await expectDone('Signed in');
});
