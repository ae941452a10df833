/** A platform demands a second factor: a user in a browser confirms the sign-in, and a service goes on for that user. */
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess } from '../gatehouse/grants/storage-access.ts';
import { createAdministrator, relayThread } from '../gatehouse/relay/service.ts';
import { openConsole } from '../sandbox/foreign-client.ts';
import { useBrowser } from '../support/browser.ts';
import { startSite, type TestSite } from '../support/gatehouse.ts';
import { completeProviderSignIn, jsonOf, navigateBy, signInWithBrowser, userIdOf } from '../support/journey.ts';
import { advanceClock, resetClock } from '../support/test-clock.ts';

/** The account of the sandbox that has a second factor. */
const LOGIN = 'admin@example.test';

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 300 } });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});
afterEach(resetClock);

/** Sets in the sandbox's console what its platform demands of the sign-in. */
async function setDemand(fields: Record<string, string>): Promise<void> {
  const console = await openConsole(site);
  const page = await console.open('/apps/test-platform');
  await console.browser.submit(page, fields, { button: 'Save' });
}

/** Confirms the sign-in with the second factor, from the page of the connection on. */
async function confirm(page: Page): Promise<void> {
  await navigateBy(page, () => page.getByRole('button', { name: 'Confirm that it is you' }).click());
  await page.locator('input[name=code]').fill(site.sandbox.secondFactorCode(LOGIN) ?? '');
  await navigateBy(page, () => page.getByRole('button', { name: 'Continue' }).click());
  await completeProviderSignIn(page, site, LOGIN);
}

const mainOf = (page: Page) => page.locator('main').innerText();

test('R145 a user whose platform demands a second factor confirms it, also for later refreshes', async () => {
  await setDemand({ demandSecondFactor: '' });
  const page = await openPage();
  await signInWithBrowser(page, site, LOGIN);
  expect(await mainOf(page)).not.toContain('confirm that it is you');

  await setDemand({ demandSecondFactor: 'yes' });
  await page.goto(`${site.url}/`);
  expect(await mainOf(page)).toContain('Please confirm that it is you');
  await navigateBy(page, () => page.getByRole('link', { name: 'Confirm that it is you' }).click());
  // No URL of Gatehouse has anything of the demand.
  expect(page.url()).toBe(`${site.url}/connections/platform`);
  expect(await mainOf(page)).toContain('asks you to confirm that it is you');
  await confirm(page);
  expect(page.url()).toBe(`${site.url}/connections/platform`);
  expect(await mainOf(page)).not.toContain('confirm that it is you');

  for (const secondsLater of [0, 301, 301]) {
    advanceClock(secondsLater);
    const response = await page.request.get(`${site.url}/threads/current`, { headers: { accept: 'application/json' } });
    expect(response.status(), `${secondsLater} s later`).toBe(200);
  }
});

test('R145 a service gets the link for its user, and goes on once the user has confirmed it', async () => {
  await setDemand({ demandSecondFactor: '' });
  const page = await openPage();
  await signInWithBrowser(page, site, LOGIN);
  const userId = await userIdOf(page, site);
  const { token } = await (await createAdministrator(site, storage)).createRelayToken({ assertUser: true });
  const call = async () => {
    const { status, body } = await relayThread(site, token, { 'gatehouse-user': userId });
    return { status, json: JSON.parse(body) };
  };
  expect((await call()).status).toBe(200);

  await setDemand({ demandSecondFactor: 'yes' });
  const refused = await call();
  expect([refused.status, refused.json.code]).toEqual([403, 'step_up_required']);
  expect((await jsonOf(page, `${site.url}/connections`)).items).toMatchObject([{ stepUpRequired: true }]);
  await page.goto(refused.json.connectUrl);
  await confirm(page);
  expect((await call()).status).toBe(200);
});
