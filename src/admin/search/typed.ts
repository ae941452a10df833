/** Makes what was typed into the search safe for a URL: a token becomes its prefix, and other secrets are left out. Pure. */
import { scrubCardNumbers } from '../../observability/card-numbers.ts';
import { KNOWN_SECRET, OWN_TOKEN } from '../../observability/secret-texts.ts';

const MAX_CHARACTERS = 200;
/** Longer than every id. */
const LONG_TEXT = /[A-Za-z0-9+/_=-]{41,}/g;

/** The text to search for; empty if nothing is left. */
export function searchable(typed: string): string {
  const [token] = typed.matchAll(OWN_TOKEN);
  if (token?.[1] !== undefined) return token[1];
  const known = typed.replace(KNOWN_SECRET, ' ');
  // The path of a webhook's URL may be long.
  const text = known.includes('://') ? known : known.replace(LONG_TEXT, ' ');
  return scrubCardNumbers(text).replace(/\s+/g, ' ').trim().slice(0, MAX_CHARACTERS).trim().toWellFormed();
}
