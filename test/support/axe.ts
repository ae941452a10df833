/** Checks pages with axe-core, and that none is wider than its window: wide and narrow, light and dark. */
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expectFitsWindow } from './journey.ts';

/** WCAG 2.2, levels A and AA, and the best practices of axe. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const [WIDE_LIGHT, WIDE_DARK, NARROW_LIGHT, NARROW_DARK] = [
  { width: 1440, scheme: 'light' },
  { width: 1440, scheme: 'dark' },
  { width: 360, scheme: 'light' },
  { width: 360, scheme: 'dark' },
] as const;
const SCREENS: readonly Screen[] = [WIDE_LIGHT, WIDE_DARK, NARROW_LIGHT, NARROW_DARK];
/** Two screens that cover each width and each scheme once. */
const TWO_SCREENS: readonly Screen[] = [WIDE_LIGHT, NARROW_DARK];

interface Screen {
  width: number;
  scheme: 'light' | 'dark';
}

interface Violation {
  id: string;
  nodes: { target: string[]; html: string }[];
}

/**
 * Needs a context with `bypassCSP`, because axe adds a style.
 * @param checkedScreens the screens on which axe runs; the page must fit on all screens
 * @returns a line for each violation on the current page
 */
export async function violationsOn(page: Page, checkedScreens = SCREENS): Promise<string[]> {
  await page.evaluate(axe.source);
  const lines: string[] = [];
  for (const screen of SCREENS) {
    const { width, scheme } = screen;
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await expectFitsWindow(page);
    if (!checkedScreens.includes(screen)) continue;
    const options = JSON.stringify({ runOnly: RULES, resultTypes: ['violations'], preload: false });
    const { violations } = (await page.evaluate(`axe.run(document, ${options})`)) as { violations: Violation[] };
    for (const { id, nodes } of violations) {
      const [first] = nodes;
      lines.push(`${page.url()} ${width} ${scheme} ${id} (${nodes.length}): ${first?.html.slice(0, 200)}`);
    }
  }
  return lines;
}

/** @returns the violations on each of these pages, on the wide light and the narrow dark screen */
export async function violationsAt(page: Page, urls: readonly string[]): Promise<string[]> {
  const lines: string[] = [];
  for (const url of urls) {
    await page.goto(url);
    lines.push(...(await violationsOn(page, TWO_SCREENS)));
  }
  return lines;
}
