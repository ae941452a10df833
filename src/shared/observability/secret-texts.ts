/** Finds tokens and secrets in texts that come from outside, so that none is kept, shown or put into a URL. Pure. */
import { scrubCardNumbers } from './card-numbers.ts';

/** Prefix and id, which are no secret, of a token or of the URL of a connect link; and what follows, even if cut off. */
export const OWN_TOKEN = /(gth[a-z]_[0-9A-Za-z]{11})[0-9A-Za-z]*/g;
/**
 * JWTs and sealed values, whole or cut off, secrets of webhooks, and tokens of GitHub, GitLab, Slack and Stripe. The first
 * letters name the kind. Every text with the first letters, or with a few more, matches, so that no place is searched twice.
 */
export const KNOWN_SECRET =
  /\b(eyJ)[\w-]+(?:\.[\w-]*)*|(whsec_)[A-Za-z0-9+/=_-]*|\b(gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|xapp-|[rs]k_)[\w-]{16,}/g;

/** The text without tokens, secrets and card numbers: of each only the part that is no secret stays. */
export function scrubSecrets(text: string): string {
  const known = text.replace(KNOWN_SECRET, '$1$2$3…');
  return scrubCardNumbers(known.replace(OWN_TOKEN, (token, start: string) => (token === start ? token : `${start}…`)));
}
