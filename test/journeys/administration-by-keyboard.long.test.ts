/**
 * Each job of an administrator, done by keyboard alone. Only the file of an import is chosen without it, because the dialog for
 * that belongs to the operating system.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess } from '../gatehouse/grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { createUserAgent } from '../support/browserless.ts';
import { CLIENT_SECRET, PASSWORD, sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { navigateBy, userIdOf } from '../support/journey.ts';
import { type Keyboard, keyboardOf } from '../support/keyboard.ts';
import { type Receiver, startReceiver } from '../support/webhook-receiver.ts';

const BIN_FILE = `BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName
40001234,VISA,DEBIT,,Example Bank,,,DK,,
`;

/** The console error of a form that asks or has a fault. */
const REFUSED_FORM = /Failed to load resource: the server responded with a status of 400/;

const openPage = useBrowser();
let site: TestSite;
let receiver: Receiver;
let storage: StorageAccess;
let admin: Administrator;
let page: Page;
let keyboard: Keyboard;
beforeAll(async () => {
  receiver = await startReceiver();
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  await signIn(site, 'second@example.test');
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
  receiver?.close();
});
beforeEach(async () => {
  page = await openPage({ viewport: { width: 1024, height: 768 } }, REFUSED_FORM);
  keyboard = keyboardOf(page);
  await page.goto(`${site.url}/`);
  await keyboard.tabTo(page.getByRole('link', { name: /^Sign in with/ }));
  await keyboard.enter();
  await typeLogin();
  await page.goto(`${site.url}/admin`);
});

/** Fills the provider's forms. */
async function typeLogin(): Promise<void> {
  for (const [field, text] of [
    ['login', 'admin@example.test'],
    ['password', PASSWORD],
  ] as const) {
    const input = page.locator(`input[name=${field}]`);
    if (!(await input.evaluate((element) => element.matches(':focus')))) await keyboard.tabTo(input);
    await page.keyboard.type(text);
  }
  await keyboard.enter();
  if (page.url().startsWith(`${site.url}/`)) return;
  await keyboard.tabTo(page.getByRole('button', { name: 'Allow' }));
  await keyboard.enter();
}

const expectText = (text: string | RegExp) => page.getByText(text).first().waitFor();

/** A new secret is copied and left behind. */
async function storeSecret(): Promise<void> {
  const copy = page.getByRole('button', { name: 'Copy' }).first();
  await keyboard.tabTo(copy);
  await keyboard.press('Enter');
  // If Chromium forbids the clipboard, the text is selected.
  await expectText(/ is (copied|selected)\.$/);
  await keyboard.follow('link', 'I have stored it');
  expect(await page.locator('.secret-once').count()).toBe(0);
}

test('registers an app: the wizard begins in its search, and takes another issuer', async () => {
  await keyboard.open('Apps');
  await keyboard.follow('link', 'Register an app');
  await keyboard.expectFocus(page.getByLabel('Search providers'));
  await page.keyboard.type('keyc');
  await keyboard.follow('link', 'Keycloak');
  await keyboard.expectFocus(page.locator('input[name=placeholder]').first());
  await keyboard.unfold('Choose another provider');
  await keyboard.follow('link', 'Another provider');
  await keyboard.type('Issuer', site.sandbox.issuer);
  await keyboard.type('Name', 'Registered by keyboard');
  await keyboard.type('ID', 'by-keyboard');
  await keyboard.enter();
  await keyboard.type('Client ID', 'test-second');
  await keyboard.type('Client secret', CLIENT_SECRET);
  await keyboard.follow('button', 'Register app');
  await expectText('The app is registered.');
});

test('adds a callback URL and a scope, which asks first', async () => {
  await admin.call('POST', '/connected-apps', sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET }));
  await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
  await keyboard.open('Apps');
  await keyboard.follow('link', 'Collaboration second');
  await keyboard.follow('link', 'Change callback URLs');
  await keyboard.tabTo(page.getByRole('button', { name: 'Add callback URL', exact: true }));
  await keyboard.press('Enter');
  await keyboard.expectFocus(page.getByLabel('Callback URL 2', { exact: true }));
  await page.keyboard.type('https://typed.example.com/callback');
  await keyboard.tabTo(page.getByRole('button', { name: 'Remove Callback URL 2', exact: true }));
  await keyboard.press('Enter');
  await keyboard.expectFocus(page.getByLabel('Callback URL 1', { exact: true }));
  await keyboard.tabTo(page.getByRole('button', { name: 'Add callback URL', exact: true }));
  await keyboard.press('Enter');
  await page.keyboard.type('https://elsewhere.example.com/oauth/callback/second');
  await keyboard.type('Other scopes', 'platform_full_access');
  await keyboard.enter();
  await page.getByRole('alert').getByText('lacks the scope platform_full_access').waitFor();
  await keyboard.expectFocus(page.getByRole('link', { name: 'Change it' }));
  await keyboard.tabTo(page.getByRole('alert').getByRole('button', { name: 'Save' }));
  await keyboard.enter();
  await expectText('Saved');
  const { json } = await admin.call('GET', '/connected-apps/second');
  expect(json).toMatchObject({
    callbackUrls: [`${site.url}/oauth/callback/second`, 'https://elsewhere.example.com/oauth/callback/second'],
    scopes: expect.arrayContaining(['platform_full_access']),
  });
});

test('disables an app, and enables it', async () => {
  await admin.call(
    'POST',
    '/connected-apps',
    sandboxApp(site, 'second', { id: 'paused', clientSecret: CLIENT_SECRET }),
  );
  await keyboard.search('paused');
  await keyboard.tabTo(
    page.getByRole('navigation', { name: 'App', exact: true }).getByRole('link', { name: 'Settings' }),
  );
  await keyboard.enter();
  await keyboard.confirm('Disable app…', 'Disable app');
  expect((await admin.call('GET', '/connected-apps/paused')).json).toMatchObject({ disabled: true });
  await keyboard.follow('button', 'Enable app');
  expect((await admin.call('GET', '/connected-apps/paused')).json).not.toMatchObject({ disabled: true });
});

test('finds why a sign-in failed by its reference', async () => {
  const agent = createUserAgent();
  const login = await agent.get(`${site.url}/sign-in?app=platform`);
  const consent = await agent.submit(login, { login: 'second@example.test', password: PASSWORD });
  await agent.submit(consent, {}, { button: 'Deny' });
  const { json } = await admin.call('GET', '/sign-ins?outcome=unsuccessful&limit=1');
  const [record] = json.items as { id: string }[];
  await keyboard.search(String(record?.id));
  await expectText('The user or their organization did not consent.');
});

test('filters the sign-ins and the audit trail', async () => {
  await keyboard.open('Activity');
  await keyboard.select('Result', 'Succeeded');
  await keyboard.follow('button', 'Search');
  expect(new URL(page.url()).searchParams.get('outcome')).toBe('succeeded');
  await keyboard.follow('link', 'Clear');
  await keyboard.open('Activity', 'Audit');
  await keyboard.unfold('Filters');
  await keyboard.type('From (UTC)', '11202026');
  await keyboard.follow('button', 'Search');
  expect(new URL(page.url()).searchParams.get('from')).toBe('2026-11-20');
  await expectText('Signed in');
});

test('creates a relay token with an expiry, tests a call, rotates the secret, and revokes the token', async () => {
  await keyboard.open('Services');
  await keyboard.follow('link', 'Create relay token');
  await keyboard.type('Name', 'By keyboard');
  await keyboard.check('Collaboration platform');
  await keyboard.choose('Users', 'All users');
  await keyboard.choose('Expires', 'In 30 days');
  await keyboard.follow('button', 'Create relay token');
  await storeSecret();

  const tabs = page.getByRole('navigation', { name: 'Relay token', exact: true });
  await keyboard.tabTo(tabs.getByRole('link', { name: 'Test a call' }));
  await keyboard.enter();
  await keyboard.type('User', 'admin@example.test');
  await keyboard.follow('button', 'Test call');
  await page.getByRole('heading', { name: 'Allowed', exact: true }).waitFor();

  await keyboard.follow('link', 'Rotate secret');
  await keyboard.follow('button', 'Create new secret');
  await storeSecret();
  await keyboard.confirm('Revoke relay token…', 'Revoke relay token');
  await expectText('Relay token revoked.');

  // Also from the menu of its row.
  await admin.createRelayToken({ name: 'Row' });
  await keyboard.open('Services');
  const menu = await keyboard.unfold('Actions for Row');
  await keyboard.confirm('Revoke…', 'Revoke relay token', menu);
  await expectText('Relay token revoked.');
});

test('creates a service account, replaces its API token, and removes it', async () => {
  const { accessToken } = await storage.readGrant(await userIdOf(page, site));
  await keyboard.open('Services', 'Service accounts');
  await keyboard.follow('link', 'Create service account');
  await keyboard.type('Name', 'Nightly');
  await keyboard.type('API token of the platform', accessToken);
  await keyboard.follow('button', 'Create service account');
  await expectText('The platform accepted the API token.');
  await keyboard.unfold('Actions for Nightly');
  await keyboard.follow('link', 'Replace API token');
  await keyboard.type('New API token', accessToken);
  await keyboard.enter();
  await expectText('The new API token is saved and used from now on.');
  const menu = await keyboard.unfold('Actions for Nightly');
  await keyboard.confirm('Delete…', 'Delete service account', menu);
  await expectText('No service accounts yet');
});

test('creates a webhook, sends a test message, and removes it', async () => {
  await keyboard.open('Services', 'Webhooks');
  await keyboard.follow('link', 'Create webhook');
  await keyboard.type('URL', receiver.url);
  await keyboard.follow('button', 'Create webhook');
  await storeSecret();
  await keyboard.follow('button', 'Send test message');
  await expectText(/delivered/);
  await keyboard.follow('link', receiver.url);
  await keyboard.confirm('Delete webhook…', 'Delete webhook');
  await expectText('No webhooks yet');
});

test('disables and enables a user, ends a session, and disconnects a connection', async () => {
  await keyboard.open('Users');
  await keyboard.follow('link', 'Sven Lindqvist');
  const session = await keyboard.unfold('Unknown browser');
  await keyboard.confirm('End session…', 'End session', session);
  await expectText(/[Ss]ession ended/);
  const connection = await keyboard.unfold('Collaboration platform');
  await keyboard.confirm('Disconnect…', 'Disconnect', connection);
  await expectText(/[Dd]isconnected/);
  await keyboard.confirm('Disable user…', 'Disable user');
  await expectText('The user is disabled.');
  await keyboard.follow('button', 'Enable user');
  await page.getByRole('link', { name: 'Disable user…' }).waitFor();
});

test('creates an admin token for a date, and revokes it', async () => {
  await keyboard.open('Settings', 'Admin tokens');
  await keyboard.follow('link', 'Create admin token');
  await keyboard.type('Name', 'terraform');
  await keyboard.choose('Expires', 'On a date');
  await keyboard.type('Last day', dateIn(400));
  await keyboard.follow('button', 'Create admin token');
  // Over a year is asked about.
  await keyboard.tabTo(page.getByRole('alert').getByRole('button', { name: 'Create admin token' }));
  await keyboard.enter();
  await storeSecret();
  const menu = await keyboard.unfold('Actions for terraform');
  await keyboard.confirm('Revoke…', 'Revoke admin token', menu);
  await expectText('Admin token revoked.');
});

/** A day as it is typed in en-US. */
function dateIn(days: number): string {
  const [year, month, day] = new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10).split('-');
  return `${month}${day}${year}`;
}

test('publishes the next signing key', async () => {
  await keyboard.open('Settings');
  await keyboard.follow('button', 'Publish the next key now');
  await expectText(/published/i);
});

test('imports BIN data, and rolls back', async () => {
  for (const name of ['first.csv', 'second.csv']) {
    await keyboard.open('Apps', 'BIN data');
    await keyboard.follow('link', 'Import BIN data');
    await keyboard.type('Date of the data', '11202026');
    const file = page.getByLabel('File', { exact: true });
    await keyboard.tabTo(file);
    await file.setInputFiles({ name, mimeType: 'text/csv', buffer: Buffer.from(BIN_FILE) });
    await keyboard.follow('button', 'Check file');
    await keyboard.follow('button', 'Import 1 row');
    await expectText(`Imported 1 row of ${name}.`);
  }
  await keyboard.confirm('Roll back…', 'Roll back');
  await expectText('Rolled back to first.csv.');
});

test('dismisses a step of the checklist', async () => {
  const setup = page.getByRole('region', { name: 'Finish setting up' });
  const dismiss = setup.getByRole('button', { name: /^Dismiss/ });
  const count = await dismiss.count();
  await keyboard.tabTo(dismiss);
  await navigateBy(page, () => keyboard.press('Space'));
  expect(await dismiss.count()).toBe(count - 1);
});
