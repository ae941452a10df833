/**
 * Tables of facts: a path or call and, after `#`, its heading; below it the lines that a page has to have, as
 * `test/support/outline.ts` writes them. Short ones stand on one line, with ` / ` between them.
 */
import { expect } from 'vitest';

/** @returns what stands before `#`, and the facts from the heading on */
export const table = (text: string): [string, string[]][] =>
  text
    .trim()
    .split(/\n(?=\S)/)
    .map((block) => {
      const [head = '', ...lines] = block.split('\n');
      const [path = '', heading] = head.split(' # ');
      return [path, [...(heading === undefined ? [] : [`# ${heading}`]), ...factsIn(lines.join('\n'))]];
    });

export const factsIn = (text: string): string[] => text.split(/\n| \/ /).flatMap((line) => line.trim() || []);

/** Fails unless the page has these lines in this order, each as often. An item of a list counts without its `-`. */
export function expectLines(page: readonly string[], facts: readonly string[]): void {
  const found = page.map((line) => line.replace(/^- /, '')).filter((line) => facts.includes(line));
  expect(found, `The page has:\n${page.join('\n')}\n`).toEqual(facts);
}
