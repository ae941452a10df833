/** Starts the Chromium of the journey tests, which comes in an npm package and needs only system libraries. */
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import packed from '@sparticuz/chromium';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { skipWithout } from './missing.ts';
import { PATIENTLY } from './until.ts';

/** Not those of the package: they switch web security off. */
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

/** Answers the browser, or in one sentence why it cannot run here. */
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

/** The package takes a file that another process is still writing for a whole one, so one unpacks and the others wait. */
async function unpack(): Promise<string> {
  const lock = join(tmpdir(), 'gatehouse-test-chromium.lock');
  for (;;) {
    try {
      mkdirSync(lock);
      break;
    } catch {
      const { mtimeMs } = statSync(lock, { throwIfNoEntry: false }) ?? { mtimeMs: Date.now() };
      // Left behind by a process that was killed.
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
  /** Errors on the console (CSP violations are among them), failed requests to our own files, and uncaught exceptions. */
  complaints: string[];
  page: Page;
}

/** A browser profile of its own, whose pages are listened to. @param expected complaints that a test provokes on purpose */
export async function openContext(
  browser: Browser,
  options: BrowserContextOptions = {},
  expected: RegExp = /(?!)/,
): Promise<WatchedContext> {
  const context = await browser.newContext({ locale: 'en-US', ...options });
  context.setDefaultTimeout(PATIENTLY.timeout);
  const complaints: string[] = [];
  const note = (text: string) => {
    if (!expected.test(text)) complaints.push(text);
  };
  context.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') note(`${message.page()?.url()}: ${message.text()}`);
  });
  context.on('weberror', (error) => note(`uncaught: ${error.error().message}`));
  context.on('requestfailed', (request) => {
    // What the next page cuts short has not failed.
    if (request.failure()?.errorText === 'net::ERR_ABORTED') return;
    if (/\/assets\//.test(request.url())) note(`failed: ${request.url()}`);
  });
  const page = await context.newPage();
  return { context, complaints, page };
}

type Demands = Parameters<typeof openContext> extends [unknown, ...infer Rest] ? Rest : never;

/**
 * For the tests of a file: one browser, whose profiles end with the test that opened them, and none may have had anything to
 * complain of. Answers what opens a page in a profile of its own.
 */
export function useBrowser(): (...demands: Demands) => Promise<Page> {
  let launching: Promise<LaunchedBrowser>;
  let opened: WatchedContext[] = [];
  beforeAll(() => {
    // Not waited for: whatever the pages come from can start meanwhile.
    launching = launchBrowser();
  });
  beforeEach(async (context) => skipWithout(context, (await launching).missing));
  afterEach(async () => {
    const complaints = opened.flatMap((one) => one.complaints);
    await Promise.all(opened.map(({ context }) => context.close()));
    opened = [];
    expect(complaints).toEqual([]);
  });
  afterAll(async () => {
    await (await launching).browser?.close();
  });
  return async (...demands) => {
    const { browser, missing } = await launching;
    if (!browser) throw new Error(missing);
    const watched = await openContext(browser, ...demands);
    opened.push(watched);
    return watched.page;
  };
}
