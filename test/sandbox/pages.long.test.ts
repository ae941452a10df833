/** The sandbox's pages in Chromium: they fit a small phone, cause no errors, and label every field. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { checkOnAllScreens, navigateBy } from '../support/journey.ts';
import { type ForeignClient, PASSWORD, startForeignClient } from './foreign-client.ts';

const ADMIN = 'admin@example.test';
const FAILED_PAGE = /Failed to load resource: the server responded with a status of 4\d\d/;

const openPage = useBrowser();
let client: ForeignClient;
beforeAll(async () => {
  client = await startForeignClient();
});
afterAll(() => client?.sandbox.close());

async function expectLabels(page: Page): Promise<void> {
  const unlabelled = await page.evaluate(
    `[...document.querySelectorAll('input:not([type=hidden]), select, textarea')].filter((field) => !field.labels.length).map((field) => field.name)`,
  );
  expect(unlabelled, page.url()).toEqual([]);
}

test('every page fits and labels its fields', async () => {
  const page = await openPage({}, FAILED_PAGE);
  const checkPage = async (name: string) => {
    await expectLabels(page);
    await checkOnAllScreens(page, `sandbox-${name}`);
  };
  const visit = async (path: string, name: string) => {
    await page.goto(client.sandbox.issuer + path);
    await checkPage(name);
  };
  const press = (name: string) => navigateBy(page, () => page.getByRole('button', { name, exact: true }).click());

  await visit('/', 'home');
  await visit('/nothing', 'not-found');
  await visit('/authorize?client_id=nobody', 'refused');
  await visit('/console', 'sign-in');
  await page.locator('input[name=login]').fill(ADMIN);
  await page.locator('input[name=password]').fill('wrong');
  await press('Sign in');
  await checkPage('sign-in-wrong');
  await page.locator('input[name=password]').fill(PASSWORD);
  await press('Sign in');
  await page.locator('input[name=code]').fill('000000');
  await press('Continue');
  await checkPage('code-wrong');
  await page.locator('input[name=code]').fill(client.sandbox.secondFactorCode(ADMIN) ?? '');
  await press('Continue');
  await checkPage('console');

  await visit('/console/apps/new', 'app-new');
  await page.locator('input[name=name]').fill('Board');
  await page.locator('textarea[name=callbackUrls]').fill('http://app.example.com/callback');
  await press('Register');
  await checkPage('app-fault');
  await page.locator('textarea[name=callbackUrls]').fill(`https://app.example.com/${'callback/'.repeat(20)}`);
  await press('Register');
  await checkPage('app-secret');
  await page.locator('select[name=overlap]').selectOption('day');
  await press('Create a new secret');
  await checkPage('app-old-secret');
  for (const path of ['apps', 'users', 'users/sbx-00u3', 'tokens', 'registration', 'users/nobody']) {
    await visit(`/console/${path}`, path.replace('/', '-'));
  }
  await visit('/console/tokens', 'tokens');
  await page.locator('input[name=name]').fill('Nightly report');
  await press('Create');
  await checkPage('token-secret');
  const { access_token } = await client.signIn({ login: ADMIN });
  const headers = { authorization: `Bearer ${access_token}` };
  const recent = await (await fetch(`${client.sandbox.platformUrl}/1/threads/recent`, { headers })).json();
  for (const { thread } of Object.values(recent as Record<string, { thread: { link: string; type: string } }>)) {
    await page.goto(thread.link);
    await checkPage(thread.type);
  }
  await visit('/account', 'account');
  await visit('/sign-out', 'sign-out');
  await press('Sign out');
  await checkPage('signed-out');
});
