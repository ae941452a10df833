/** Reads texts of services and files, none of which is trusted. */
import { z } from 'zod';
import { containsCardNumber } from '../observability/card-numbers.ts';

/** Visible ASCII with single spaces. */
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;

/** Returns the text on one line, without control and invisible characters, cut to the maximum length. */
export function cleanText(text: string, maxLength: number): string {
  // A fast path: nearly all of the millions of texts in a data set are plain.
  if (text.length <= maxLength && PLAIN.test(text)) return text;
  return [...text.slice(0, maxLength * 4).replace(/[\p{C}\s]+/gu, ' ')].slice(0, maxLength).join('').trim();
}

/**
 * Removes `https://` and the final slash. Undefined unless a plain host name with an optional path is left, without a
 * card number (R85).
 */
export function bareUrl(text: string): string | undefined {
  if (text.length > 200) return undefined;
  const bare = text
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/+$/, '');
  const isPlain = /^[a-z0-9-]+(\.[a-z0-9-]+)+(\/[\w.~%/-]*)?$/i.test(bare);
  return isPlain && !containsCardNumber(bare) ? bare : undefined;
}

/** One line of text that is not empty; of a file only without a card number. */
export const line = (maxLength: number) => ({
  response: z
    .string()
    .transform((text) => cleanText(text, maxLength))
    .pipe(z.string().min(1)),
  cell: (cell: string) => withoutCardNumber(cell, maxLength),
});

export const yesOrNo = {
  response: z.boolean(),
  cell(cell: string) {
    if (/^(y|yes|true|1)$/i.test(cell)) return true;
    return /^(n|no|false|0)$/i.test(cell) ? false : undefined;
  },
};

export const lowerCase = (pattern: RegExp) => z.string().trim().toLowerCase().regex(pattern);

/** A clean text; undefined if it is empty or holds a card number (R85). */
export function withoutCardNumber(text: string, maxLength: number): string | undefined {
  const clean = cleanText(text, maxLength);
  return clean && !containsCardNumber(clean) ? clean : undefined;
}
