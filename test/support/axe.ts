/** Judges pages in a browser: axe-core finds nothing, and no page is wider than its window, wide and narrow, light and dark. */
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expectNoSideways } from './journey.ts';

/** WCAG 2.2, levels A and AA, and what axe recommends beyond. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const LOOKS = [1440, 360].flatMap((width) => (['light', 'dark'] as const).map((scheme) => ({ width, scheme })));
/** Each width and each scheme once. */
const TWO_LOOKS = LOOKS.filter(({ width, scheme }) => (width === 1440) === (scheme === 'light'));

interface Finding {
  id: string;
  nodes: { target: string[]; html: string }[];
}

/**
 * Needs a context with `bypassCSP`, since axe adds a style.
 * @param judged the looks in which axe looks for violations; the page has to fit in all of them
 * @returns a line for each violation on the page that is open
 */
export async function findingsOn(page: Page, judged = LOOKS): Promise<string[]> {
  await page.evaluate(axe.source);
  const lines: string[] = [];
  for (const look of LOOKS) {
    const { width, scheme } = look;
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await expectNoSideways(page);
    if (!judged.includes(look)) continue;
    const options = JSON.stringify({ runOnly: RULES, resultTypes: ['violations'], preload: false });
    const { violations } = (await page.evaluate(`axe.run(document, ${options})`)) as { violations: Finding[] };
    for (const { id, nodes } of violations) {
      const [first] = nodes;
      lines.push(`${page.url()} ${width} ${scheme} ${id} (${nodes.length}): ${first?.html.slice(0, 200)}`);
    }
  }
  return lines;
}

/** @returns the violations on each of these pages, opened one after the other, wide and light or narrow and dark */
export async function findingsAt(page: Page, urls: readonly string[]): Promise<string[]> {
  const lines: string[] = [];
  for (const url of urls) {
    await page.goto(url);
    lines.push(...(await findingsOn(page, TWO_LOOKS)));
  }
  return lines;
}
