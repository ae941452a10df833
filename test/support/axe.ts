/** Checks pages with axe-core, and that none is wider than its window: from narrow to wide, and dark. */
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expectFitsWindow } from './journey.ts';

/** WCAG 2.2, levels A and AA, and the best practices of axe. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
/** Each width has a layout of its own. Dark changes only colours, so the two colour schemes share the widths. */
const SCREENS: readonly Screen[] = [
  { width: 320, scheme: 'dark' },
  { width: 768, scheme: 'light' },
  { width: 1024, scheme: 'dark' },
  { width: 1440, scheme: 'light' },
];

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
 * @returns a line for each violation on the current page
 */
export async function violationsOn(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const lines: string[] = [];
  for (const { width, scheme } of SCREENS) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await expectFitsWindow(page);
    // As high as the page: what the bar of a form covers at first is reached by scrolling, which axe does not do.
    await page.setViewportSize({ width, height: await page.evaluate('document.documentElement.scrollHeight') });
    const options = JSON.stringify({ runOnly: RULES, resultTypes: ['violations'], preload: false });
    const { violations } = (await page.evaluate(`axe.run(document, ${options})`)) as { violations: Violation[] };
    for (const { id, nodes } of violations) {
      const [first] = nodes;
      lines.push(`${page.url()} ${width} ${scheme} ${id} (${nodes.length}): ${first?.html.slice(0, 200)}`);
    }
  }
  return lines;
}

/** @returns the violations on each of these pages */
export async function violationsAt(page: Page, urls: readonly string[]): Promise<string[]> {
  const lines: string[] = [];
  for (const url of urls) {
    await page.goto(url);
    lines.push(...(await violationsOn(page)));
  }
  return lines;
}
