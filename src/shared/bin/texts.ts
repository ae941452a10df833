/** Cleans untrusted texts of services and files. */
import { z } from 'zod';
import { containsCardNumber } from '../observability/card-numbers.ts';
import { cutText } from '../text.ts';
import { isNoFact } from './vocabulary.ts';

/** Visible ASCII with single spaces. */
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;

/** Returns the text on one line, without control and invisible characters, cut to the maximum length in UTF-16 units. */
export function cleanText(text: string, maxLength: number): string {
  // Fast path: nearly all of the millions of texts in a data set are plain.
  if (text.length <= maxLength && PLAIN.test(text)) return text;
  const beginning = cutText(text, maxLength * 4);
  return cutText(beginning.replace(/[\p{C}\s]+/gu, ' '), maxLength).trim();
}

/**
 * Returns the URL without scheme and final slashes; undefined unless it is a plain host name with an optional path, and
 * contains no card number (R85).
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

/** Rules for a line of text that is not empty. A cell with a card number is ignored. */
export const line = (maxLength: number) => ({
  response: z
    .string()
    .transform((text) => cleanText(text, maxLength))
    .pipe(z.string().refine((text) => text !== '' && !isNoFact(text))),
  cell: (cell: string) => withoutCardNumber(cell, maxLength),
});

/** Rules for yes or no. @param read reads a cell; undefined for a word that it does not understand */
export const yesOrNo = (read: (cell: string) => boolean | undefined) => ({
  response: z.boolean(),
  cell: read,
  isUnderstood: (cell: string) => read(cell) !== undefined,
});

/** Returns the clean text; undefined if it is empty or contains a card number (R85). */
export function withoutCardNumber(text: string, maxLength: number): string | undefined {
  const clean = cleanText(text, maxLength);
  return clean && !containsCardNumber(clean) ? clean : undefined;
}

const MAX_NAMED = 40;

/** Returns the value of a cell for a message; undefined if it may hold digits of a card, which are never repeated (R85). */
export function namedValue(text: string): string | undefined {
  const clean = cleanText(text, MAX_NAMED);
  return clean === '' || (clean.match(/\p{Nd}/gu)?.length ?? 0) > 3 || containsCardNumber(clean) ? undefined : clean;
}
