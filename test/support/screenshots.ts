/** `npm run screenshots`: takes the pictures of README and docs from the running demo. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { launchBrowser, openContext } from './browser.ts';
import { startProgram } from './program.ts';

const docs = join(import.meta.dirname, '..', '..', 'docs');
const VIEWPORT = { width: 1200, height: 790 };
const MAX_BYTES = 150_000;
const PASSWORD = 'gatehouse-demo';

const { browser, missing } = await launchBrowser();
if (!browser) throw new Error(missing);
const ports = ['PORT', 'MANAGEMENT_PORT', 'SANDBOX_PORT'].flatMap((name) => {
  const value = process.env[name];
  return value === undefined ? [] : [[name, value]];
});
const demo = startProgram(['node', 'src/demo.ts'], Object.fromEntries(ports));
try {
  await demo.printed('Gatehouse is ready at');
  const url = /ready at (\S+)/.exec(demo.stdout())?.[1] ?? '';

  const user = await visitor();
  await user.goto(`${url}/`);
  await press(user, /^Sign in with/, 'link');
  await signIn(user, 'user@example.test');
  await press(user, 'Allow');
  await user.getByRole('heading', { name: 'Current thread' }).first().waitFor();
  await picture(user, 'home');

  // A user denies access: the page shows a reference, with which administrators find the sign-in.
  const other = await visitor();
  await other.goto(`${url}/sign-in?app=platform`);
  await signIn(other, 'second@example.test');
  await press(other, 'Deny');

  const administrator = await visitor();
  await administrator.goto(`${url}/admin/sign-ins`);
  await signIn(administrator, 'admin@example.test');
  await press(administrator, 'Allow');
  await administrator.locator('main a[href*="/admin/sign-ins/"]').first().click();
  await administrator.waitForLoadState('load');
  await picture(administrator, 'sign-in-record');
  await administrator.goto(`${url}/admin/connected-apps/platform`);
  await press(administrator, /Check/);
  await picture(administrator, 'connected-app');
} finally {
  await browser.close();
  demo.signal('SIGTERM');
  await demo.ended;
}

async function visitor(): Promise<Page> {
  if (!browser) throw new Error(missing);
  return (await openContext(browser, { viewport: VIEWPORT, colorScheme: 'light' })).page;
}

async function signIn(page: Page, login: string): Promise<void> {
  await page.locator('input[name=login]').fill(login);
  await page.locator('input[name=password]').fill(PASSWORD);
  await press(page, 'Sign in');
}

/** Presses a button and waits for the page behind it. */
async function press(page: Page, name: string | RegExp, role: 'button' | 'link' = 'button'): Promise<void> {
  await Promise.all([page.waitForEvent('framenavigated'), page.getByRole(role, { name }).first().click()]);
  await page.waitForLoadState('load');
}

async function picture(page: Page, name: string): Promise<void> {
  const path = join(docs, `${name}.png`);
  await page.screenshot({ path });
  const { size } = statSync(path);
  if (size > MAX_BYTES) throw new Error(`${path} has ${size} bytes, more than ${MAX_BYTES}.`);
  process.stdout.write(`${path} (${size} bytes)\n`);
}
