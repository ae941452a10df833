/**
 * Makes what was typed into the search safe for a URL: a token becomes its prefix, a URL its beginning, and other secrets
 * are left out. Pure.
 */
import { scrubCardNumbers } from '../../../shared/observability/card-numbers.ts';
import { KNOWN_SECRET, OWN_TOKEN } from '../../../shared/observability/secret-texts.ts';

const MAX_CHARACTERS = 200;
/** Longer than every id. */
const LONG_TEXT = /[A-Za-z0-9+/_=-]{41,}/g;
/** Host and first segment of the path, if that is short, are kept: anything else in a webhook's URL may be its secret. */
const URL_PARTS = /:\/\/(?:[^\s/\\?#]*@)?([^\s/\\?#]*)(\/[^\s/\\?#]{0,20}(?=[\s/\\?#]|$))?\S*/g;

/** The text to search for; empty if nothing is left. */
export function searchable(typed: string): string {
  const [token] = typed.matchAll(OWN_TOKEN);
  if (token?.[1] !== undefined) return token[1];
  const text = typed.replace(URL_PARTS, '://$1$2').replace(KNOWN_SECRET, ' ').replace(LONG_TEXT, ' ');
  return scrubCardNumbers(text).replace(/\s+/g, ' ').trim().slice(0, MAX_CHARACTERS).trim().toWellFormed();
}
