/** Starts the Chromium of the journey tests. It comes in an npm package and needs only system libraries, but has no back/forward cache. */
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import packed from '@sparticuz/chromium';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { skipIfMissing } from './missing.ts';
import { LONG_TIMEOUT } from './until.ts';

/** The default arguments of the package are not used, because they disable web security. */
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export type LaunchedBrowser = { browser: Browser; missing?: never } | { browser?: never; missing: string };

/** Returns the browser, or a sentence that says why it cannot run here. */
export async function launchBrowser(): Promise<LaunchedBrowser> {
  try {
    const executablePath = await unpack();
    return { browser: await chromium.launch({ executablePath, args: ARGUMENTS }) };
  } catch (error) {
    const lines = error instanceof Error ? error.message.split('\n') : [];
    const cause =
      lines.find((line) => /error while loading|ENO|cannot|No such/i.test(line)) ?? lines[0] ?? 'no reason given';
    return {
      missing: `libraries of Chromium (${cause.trim()}; on Debian libnss3)`,
    };
  }
}

/**
 * Returns an installed Chromium or Chrome with the back/forward cache that users have. The Chromium of the package has
 * none, and Playwright switches that of others off.
 */
export async function launchBrowserWithBackCache(): Promise<LaunchedBrowser> {
  const paths = (process.env.PATH ?? '').split(delimiter);
  const executablePath = ['chromium', 'google-chrome']
    .flatMap((name) => paths.map((path) => join(path, name)))
    .find((path) => existsSync(path));
  if (executablePath === undefined) return { missing: 'chromium' };
  const ignoreDefaultArgs = ['--disable-back-forward-cache', '--headless'];
  const args = [...ARGUMENTS, '--headless=new'];
  return { browser: await chromium.launch({ executablePath, args, ignoreDefaultArgs }) };
}

/** One process unpacks while the others wait, because the package would use a file that is only partly written. */
async function unpack(): Promise<string> {
  const lock = join(tmpdir(), 'gatehouse-test-chromium.lock');
  for (;;) {
    try {
      mkdirSync(lock);
      break;
    } catch {
      const { mtimeMs } = statSync(lock, { throwIfNoEntry: false }) ?? { mtimeMs: Date.now() };
      // A process that was killed left the lock.
      if (Date.now() - mtimeMs > 60_000) rmSync(lock, { recursive: true, force: true });
      await sleep(50);
    }
  }
  try {
    return await packed.executablePath();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

export interface WatchedContext {
  context: BrowserContext;
  /** Console errors (which include CSP violations), failed requests for assets, and uncaught exceptions. */
  errors: string[];
  page: Page;
}

/** Opens a new browser profile that collects the errors of its pages. @param expected errors that a test provokes */
export async function openContext(
  browser: Browser,
  options: BrowserContextOptions = {},
  expected: RegExp = /(?!)/,
): Promise<WatchedContext> {
  const context = await browser.newContext({ locale: 'en-US', ...options });
  context.setDefaultTimeout(LONG_TIMEOUT.timeout);
  const errors: string[] = [];
  const addError = (text: string) => {
    if (!expected.test(text)) errors.push(text);
  };
  context.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning')
      addError(`${message.page()?.url()}: ${message.text()}`);
  });
  context.on('weberror', (error) => addError(`uncaught: ${error.error().message}`));
  context.on('requestfailed', (request) => {
    // A request that a navigation aborts has not failed.
    if (request.failure()?.errorText === 'net::ERR_ABORTED') return;
    if (/\/assets\//.test(request.url())) addError(`failed: ${request.url()}`);
  });
  const page = await context.newPage();
  return { context, errors, page };
}

type ContextOptions = Parameters<typeof openContext> extends [unknown, ...infer Rest] ? Rest : never;

/**
 * Starts one browser for the tests of a file. Profiles close at the end of their test, which fails if they had errors.
 * @returns a function that opens a page in a new profile
 */
export function useBrowser(launch = launchBrowser): (...options: ContextOptions) => Promise<Page> {
  let launching: Promise<LaunchedBrowser>;
  let opened: WatchedContext[] = [];
  beforeAll(() => {
    // Do not wait: the site can start meanwhile.
    launching = launch();
  });
  beforeEach(async (context) => skipIfMissing(context, (await launching).missing));
  afterEach(async () => {
    const errors = opened.flatMap((watched) => watched.errors);
    await Promise.all(opened.map(({ context }) => context.close()));
    opened = [];
    expect(errors).toEqual([]);
  });
  afterAll(async () => {
    await (await launching).browser?.close();
  });
  return async (...options) => {
    const { browser, missing } = await launching;
    if (!browser) throw new Error(missing);
    const watched = await openContext(browser, ...options);
    opened.push(watched);
    return watched.page;
  };
}
