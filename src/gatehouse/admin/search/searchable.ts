/**
 * Makes search text safe for a URL: shortens tokens to their prefix and URLs to their beginning, and removes other
 * secrets. Pure.
 */
import { scrubCardNumbers } from '../../../shared/observability/card-numbers.ts';
import { KNOWN_SECRET, OWN_TOKEN } from '../../../shared/observability/secret-texts.ts';
import { cutText } from '../../../shared/text.ts';

const MAX_LENGTH = 200;
/** Exceeds the length of every id. */
const LONG_TEXT = /[A-Za-z0-9+/_=-]{41,}/g;
/** Keeps the host and a short first path segment. The rest of a webhook's URL may contain a secret. */
const URL_PARTS = /:\/\/(?:[^\s/\\?#]*@)?([^\s/\\?#]*)(\/[^\s/\\?#]{0,20}(?=[\s/\\?#]|$))?\S*/g;

/** Returns the safe part of the text, or '' if nothing remains to search for. */
export function searchable(entered: string): string {
  const [token] = entered.matchAll(OWN_TOKEN);
  if (token?.[1] !== undefined) return token[1];
  const text = entered.replace(URL_PARTS, '://$1$2').replace(KNOWN_SECRET, ' ').replace(LONG_TEXT, ' ');
  return cutText(scrubCardNumbers(text).replace(/\s+/g, ' ').trim().toWellFormed(), MAX_LENGTH).trim();
}
