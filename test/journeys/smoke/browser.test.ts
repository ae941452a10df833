/** The main flow in Chromium for `npm test`, with axe-core on its pages. The long suite has the rest. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { violationsOn } from '../../support/axe.ts';
import { useBrowser } from '../../support/browser.ts';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { completeProviderSignIn, navigateBy, signInWithBrowser, signOutFromMenu } from '../../support/journey.ts';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite({ env: { ADMIN_APP: 'platform' } });
});
afterAll(() => site?.close());

test('signs in, consents, reads the thread, looks up a BIN, disconnects, connects again and signs out', async () => {
  const page = await openPage({ bypassCSP: true });
  await signInWithBrowser(page, site);
  const body = page.locator('body');
  expect(await body.innerText()).toContain('Spring launch');
  expect(await violationsOn(page)).toEqual([]);

  await page.getByLabel('First digits of the card').fill('45717360');
  await navigateBy(page, () => page.getByRole('button', { name: 'Look up' }).click());
  expect(await body.innerText()).toContain('Jyske Bank');

  await page.goto(`${site.url}/connections/platform`);
  expect(await violationsOn(page)).toEqual([]);
  await navigateBy(page, () => page.getByRole('button', { name: 'Disconnect' }).click());
  expect(await body.innerText()).toContain('Not connected');
  await navigateBy(page, () => page.getByRole('button', { name: /^Connect/ }).click());
  await completeProviderSignIn(page, site);
  expect(await body.innerText()).toContain('Active');

  await signOutFromMenu(page);
  // The provider asks whether to end its own session, too.
  await navigateBy(page, () => page.getByRole('button', { name: 'Sign out' }).click());
  expect(page.url()).toBe(`${site.url}/`);
  expect(await body.innerText()).toContain('Welcome to');
});

test('the content security policy lets a user sign in, and an administrator open the overview and an app', async () => {
  const page = await openPage();
  await signInWithBrowser(page, site, 'admin@example.test');
  for (const path of ['/admin', '/admin/connected-apps/platform/settings', '/admin/relay-tokens/new']) {
    await page.goto(site.url + path);
    expect(await page.getByRole('heading', { level: 1 }).innerText(), path).not.toBe('');
  }
});
