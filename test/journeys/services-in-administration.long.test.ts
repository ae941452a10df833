/** Three tasks of an administrator in a real browser, each in three clicks, wide and narrow, light and dark. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess, sessionOf } from '../gatehouse/grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { checkOnAllScreens, navigateBy, signInWithBrowser } from '../support/journey.ts';
import { type Receiver, startReceiver } from '../support/webhook-receiver.ts';

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let receiver: Receiver;
let userId: string;
beforeAll(async () => {
  receiver = await startReceiver();
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ userId } = await sessionOf(site, (await signIn(site)).agent));
  await signIn(site, 'second@example.test');
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
  receiver?.close();
});

let page: Page;
/** Clicks since the overview. Typing does not count. */
let clicks: number;
beforeEach(async () => {
  page = await openPage({}, /status of 40\d/);
  await signInWithBrowser(page, site, 'admin@example.test');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(`${site.url}/admin`);
  clicks = 0;
});

async function click(role: 'link' | 'button', name: string | RegExp): Promise<void> {
  clicks += 1;
  await navigateBy(page, () =>
    page
      .getByRole(role, { name, exact: typeof name === 'string' })
      .first()
      .click(),
  );
}

async function look(name: string): Promise<void> {
  await checkOnAllScreens(page, `services-${name}`);
  await page.setViewportSize({ width: 1440, height: 900 });
}

test('tests a call for a user by e-mail address: shows the result of each rule, and the call to copy', async () => {
  await admin.createRelayToken({ name: 'Strict', users: [userId], scopes: ['threads:read'] });
  await click('link', 'Services');
  await click('link', 'Test a call');
  await look('test-call-empty');
  await page.getByLabel('User', { exact: true }).pressSequentially('sec');
  const suggested = page.locator('datalist option[value="second@example.test"]');
  await suggested.waitFor({ state: 'attached' });
  await page.getByLabel('User', { exact: true }).fill('second@example.test');
  await click('button', 'Test call');
  expect(clicks).toBe(3);
  const result = page.getByRole('region', { name: 'Result' });
  expect(await result.getByRole('heading', { level: 2 }).innerText()).toMatch(/Refused\s+by the rule users/);
  expect(await result.getByText('The relay token may not act for this user.').count()).toBe(1);
  expect(
    await result
      .getByRole('listitem')
      .filter({ hasText: /Passed:/ })
      .count(),
  ).toBeGreaterThanOrEqual(5);
  await look('test-call-refused');
  for (const language of ['TypeScript', 'Python']) {
    await result.getByText(language, { exact: true }).click();
    await result.getByText(language === 'Python' ? 'urllib.request.urlopen' : 'await fetch').waitFor();
  }
  await look('test-call-python');
  await page.getByLabel('User', { exact: true }).fill('user@example.test');
  await click('button', 'Test call');
  expect(await result.getByRole('heading', { level: 2 }).innerText()).toBe('Allowed');
  await look('test-call-allowed');
});

test('creates and tests a webhook, shows its response, resends, rotates its secret, and deletes it after confirmation', async () => {
  receiver.setResponse(503, 'the queue is full');
  await click('link', 'Services');
  await click('link', 'Webhooks');
  await look('webhooks-empty');
  await click('link', 'Create webhook');
  await page.getByLabel('URL').fill(receiver.url);
  await look('webhook-new');
  await click('button', 'Create webhook');
  expect(await page.locator('.secret-once').innerText()).toMatch(/^whsec_/);
  await look('webhook-created');

  await page.goto(`${site.url}/admin`);
  clicks = 0;
  await click('link', 'Services');
  await click('link', 'Webhooks');
  await click('button', `Send test ${receiver.url}`);
  expect(clicks).toBe(3);
  expect(await page.locator('.notice').innerText()).toContain(
    'Test message not delivered. The receiver responded with 503.',
  );
  expect(await page.getByText('the queue is full').count()).toBe(1);
  expect(await page.locator('pre', { hasText: 'webhook.test' }).count()).toBe(1);
  await look('webhook-message-failed');
  receiver.setResponse(200, 'thank you');
  await click('button', 'Send again');
  expect(await page.locator('.notice').innerText()).toContain('Message delivered. The receiver responded with 200.');
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toMatch(/Delivered/);
  await look('webhook-message-delivered');

  receiver.setResponse(500);
  await click('link', receiver.url);
  await click('button', 'Send test message');
  await click('link', receiver.url);
  expect(await page.getByText(/Failing since/).count()).toBe(1);
  await look('webhook-failing');
  await page.goto(`${site.url}/admin/webhooks?state=failing`);
  expect(await page.getByRole('row').filter({ hasText: 'Failing since' }).count()).toBe(1);
  await look('webhooks-failing');
  await click('link', receiver.url);
  await click('link', 'Rotate secret');
  await click('button', 'Create new secret');
  expect(await page.locator('.secret-once').innerText()).toMatch(/^whsec_/);
  await click('link', 'I have stored it');
  await page.getByRole('link', { name: 'End it now…' }).waitFor();

  await page.getByRole('link', { name: 'Delete webhook…' }).click();
  await page.getByText('This cannot be undone.').last().waitFor();
  await navigateBy(page, () => page.getByRole('button', { name: 'Delete webhook', exact: true }).click());
  expect(await page.getByText('No webhooks yet').count()).toBe(1);
});

test('creates a relay token for a user found by name, with the call to copy; warns about a token that can do nothing', async () => {
  await click('link', 'Services');
  await click('link', 'Create relay token');
  await page.getByLabel('Name', { exact: true }).fill('Nightly reports');
  await look('token-new');
  await page.getByLabel('Collaboration platform').check();
  const find = page.getByLabel('Find a user by name or e-mail address');
  expect(await find.isVisible()).toBe(false);
  await page.getByLabel('Chosen users').check();
  await find.pressSequentially('sec');
  await page.locator('datalist option[value="second@example.test"]').waitFor({ state: 'attached' });
  await find.fill('second@example.test');
  expect(await page.getByLabel('Users, one per line').inputValue()).toBe('second@example.test');
  expect(await page.getByLabel('Chosen users').isChecked()).toBe(true);
  await click('button', 'Create relay token');
  expect(clicks).toBe(3);
  expect(await page.locator('.secret-once').innerText()).toMatch(/^gthr_/);
  expect(await page.getByText('Authorization: Bearer $RELAY_TOKEN').first().innerText()).not.toContain('gthr_');
  await look('token-created');
  await click('link', 'I have stored it');
  expect(await page.getByRole('link', { name: 'second@example.test' }).count()).toBe(1);

  const tabs = page.getByRole('navigation', { name: 'Relay token', exact: true });
  await navigateBy(page, () => tabs.getByRole('link', { name: 'Test a call' }).click());
  await page.getByLabel('User', { exact: true }).fill('second@example.test');
  await click('button', 'Test call');
  expect(new URL(page.url()).pathname).toMatch(/^\/admin\/relay-tokens\/\w+\/test$/);
  expect(await page.getByRole('region', { name: 'Result' }).getByRole('heading', { level: 2 }).innerText()).toBe(
    'Allowed',
  );
  await look('token-test');

  await page.goto(`${site.url}/admin/relay-tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('For nobody');
  await click('button', 'Create relay token');
  await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('apps');
  await page.getByLabel('Collaboration platform').check();
  await click('button', 'Create relay token');
  await click('link', 'I have stored it');
  expect(await page.getByText('This token can do nothing.').count()).toBe(1);
  await look('token-idle');
  await page.goto(`${site.url}/admin/relay-tokens`);
  expect(await page.getByRole('row').filter({ hasText: 'Can do nothing' }).count()).toBe(1);
  await look('tokens');
});
