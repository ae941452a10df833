/** Checks that pages are valid HTML, and that no heading, sentence, button or entry is empty. */
import { HtmlValidate } from 'html-validate';
import { expect } from 'vitest';
import type { Page } from './browserless.ts';

/** Only the rules of the standard, no style rules. */
const validator = new HtmlValidate({ root: true, extends: ['html-validate:standard'] });

async function faultsOf({ body, url }: Page): Promise<string[]> {
  const { results } = await validator.validateString(body);
  return results.flatMap(({ messages }) =>
    messages.map(({ ruleId, message, line }) => `${new URL(url).pathname}:${line} ${ruleId}: ${message}`),
  );
}

/** A heading, sentence, button or entry without text. */
const EMPTY = /<(h[1-4]|p|li|button|legend|label|dt)\b(?![^>]*(?:aria-label|role="status"))[^>]*>\s*<\/\1>/g;

export async function expectValid(...pages: Page[]): Promise<void> {
  expect((await Promise.all(pages.map(faultsOf))).flat()).toEqual([]);
  expect(pages.flatMap(({ url, body }) => (body.match(EMPTY) ?? []).map((empty) => `${url}: ${empty}`))).toEqual([]);
}
