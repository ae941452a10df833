/** Users can choose their account: with the hints that a service adds to a link, and with "Use another account". */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { sessionCookieName } from '../../src/shared/sessions/browser-sessions.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../gatehouse/grants/storage-access.ts';
import { bearer, createAdministrator } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { PASSWORD, signIn, type TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy, signInWithBrowser } from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';
import { sendRequest } from '../support/send-request.ts';

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startDocumentedSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

test('R110 a service sends its user to the provider with a login hint, and sees the new connection', async () => {
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const admin = await createAdministrator(site, storage);
  const { token } = await admin.createRelayToken({ scopes: ['connections:read'], assertUser: true });
  const connection = async () => {
    const response = await sendRequest(`${site.url}/relay/connections?user=${userId}`, { headers: bearer(token) });
    return JSON.parse(response.body).items[0];
  };
  await storage.changeGrant(userId, () => ({ refreshToken: undefined, expiresAt: Date.now() - 1 }));
  const { health, connectUrl } = await connection();
  expect(health).toBe('reconnect_needed');

  const hints = { login_hint: 'second@example.test', prompt: 'select_account', ui_locales: 'de en' };
  const page = await agent.get(`${connectUrl}?${new URLSearchParams(hints)}`);
  const login = await agent.submit(page, {}, { button: 'Reconnect with these permissions' });
  const requested = new URL(login.visited.find((url) => url.includes('/authorize?')) ?? '').searchParams;
  expect(Object.fromEntries(requested)).toMatchObject({ ...hints, prompt: 'select_account consent' });
  expect(login.body).toMatch(/name="login"[^>]* value="second@example.test"/);
  const switching = await agent.submit(login, { password: PASSWORD });
  const consent = await agent.submit(switching, {}, { button: 'Switch' });
  const connected = await agent.submit(consent, {}, { button: 'Allow' });
  expect(connected.body).toMatch(/Connected as <bdi>second@example.test/);
  expect(await connection()).toMatchObject({ health: 'active', connectUrl: null });
  expect((await storage.readGrant(userId)).refreshToken).toBeDefined();
  // The log contains neither the hints nor the account.
  expect(site.logs().join('')).not.toContain('select_account');
  expect(site.logs().join('')).not.toContain(encodeURIComponent(hints.login_hint));
});

test('"Use another account" makes the provider ask, even if another user is signed in there', async () => {
  const page = await openPage();
  await signInWithBrowser(page, site);
  const words = () => page.locator('main').innerText();
  expect(await words()).toContain('Signed in as user@example.test');
  // Without Gatehouse's session, the provider's session still belongs to the same user.
  await page.context().clearCookies({ name: sessionCookieName(site.url) });
  await page.goto(`${site.url}/`);
  await navigateBy(page, () => page.getByRole('link', { name: /^Sign in with/ }).click());
  expect(await words()).toContain('You are signed in as Uma Okafor');

  await page.goto(`${site.url}/`);
  await navigateBy(page, () => page.getByRole('link', { name: /^Use another account/ }).click());
  await page.locator('input[name=login]').fill('second@example.test');
  await page.locator('input[name=password]').fill(PASSWORD);
  await navigateBy(page, () => page.getByRole('button', { name: 'Sign in' }).click());
  await navigateBy(page, () => page.getByRole('button', { name: 'Switch' }).click());
  await completeProviderSignIn(page, site, 'second@example.test');
  expect(await words()).toContain('Signed in as second@example.test');

  await page.goto(`${site.url}/connections/platform`);
  await navigateBy(page, () => page.getByRole('button', { name: 'Use another account' }).click());
  expect(await page.locator('input[name=login]').isVisible()).toBe(true);
});
