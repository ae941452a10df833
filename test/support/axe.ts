/** Checks pages with axe-core, and that none is wider than its window: wide and narrow, light and dark. */
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expectFitsWindow } from './journey.ts';

/** WCAG 2.2, levels A and AA, and the best practices of axe. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const SCREENS = [1440, 360].flatMap((width) => (['light', 'dark'] as const).map((scheme) => ({ width, scheme })));
/** Two looks that cover each width and each scheme once. */
const TWO_SCREENS = SCREENS.filter(({ width, scheme }) => (width === 1440) === (scheme === 'light'));

interface Violation {
  id: string;
  nodes: { target: string[]; html: string }[];
}

/**
 * Needs a context with `bypassCSP`, because axe adds a style.
 * @param checkedScreens the looks in which axe runs; the page must fit in all looks
 * @returns a line for each violation on the current page
 */
export async function violationsOn(page: Page, checkedScreens = SCREENS): Promise<string[]> {
  await page.evaluate(axe.source);
  const lines: string[] = [];
  for (const look of SCREENS) {
    const { width, scheme } = look;
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await expectFitsWindow(page);
    if (!checkedScreens.includes(look)) continue;
    const options = JSON.stringify({ runOnly: RULES, resultTypes: ['violations'], preload: false });
    const { violations } = (await page.evaluate(`axe.run(document, ${options})`)) as { violations: Violation[] };
    for (const { id, nodes } of violations) {
      const [first] = nodes;
      lines.push(`${page.url()} ${width} ${scheme} ${id} (${nodes.length}): ${first?.html.slice(0, 200)}`);
    }
  }
  return lines;
}

/** @returns the violations on each of these pages, in the wide light and the narrow dark look */
export async function violationsAt(page: Page, urls: readonly string[]): Promise<string[]> {
  const lines: string[] = [];
  for (const url of urls) {
    await page.goto(url);
    lines.push(...(await violationsOn(page, TWO_SCREENS)));
  }
  return lines;
}
