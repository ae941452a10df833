/**
 * Tables of facts: a path or call and, after `#`, its heading; below it the lines that a page has to have, as
 * `test/support/outline.ts` writes them. Short ones stand on one line, with ` / ` between them.
 */
import { expect } from 'vitest';

/** @returns for each entry what stands before `#`, and its facts, of which the heading is the first */
export function parseTable(text: string): [pathOrCall: string, facts: string[]][] {
  const entries = text.trim().split(/\n(?=\S)/);
  return entries.map((entry) => {
    const [firstLine = '', ...indentedLines] = entry.split('\n');
    const [pathOrCall = '', heading] = firstLine.split(' # ');
    const facts = parseFacts(indentedLines.join('\n'));
    return [pathOrCall, heading === undefined ? facts : [`# ${heading}`, ...facts]];
  });
}

/** @returns the facts of these lines, each without its indentation */
export function parseFacts(text: string): string[] {
  const facts = text.split(/\n| \/ /).map((fact) => fact.trim());
  return facts.filter((fact) => fact !== '');
}

/** Fails unless the page has these lines in this order, each as often. An item of a list counts without its `-`. */
export function expectLines(page: readonly string[], facts: readonly string[]): void {
  const found = page.map((line) => line.replace(/^- /, '')).filter((line) => facts.includes(line));
  expect(found, `The page has:\n${page.join('\n')}\n`).toEqual(facts);
}
