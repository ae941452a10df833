/** Finds tokens and secrets in external texts, so that none is stored, shown or put into a URL. Pure. */
import { scrubCardNumbers } from './card-numbers.ts';

/** Matches a token, or the secret of a connect link, even if truncated. Its prefix and id are not secret. */
export const OWN_TOKEN = /(gth[a-z]_[0-9A-Za-z]{11})[0-9A-Za-z]*/g;
/**
 * Matches JWTs and sealed values, even if truncated, webhook secrets, and tokens of GitHub, GitLab, Slack and Stripe.
 * The first letters identify the kind. A text matches after its first few letters, so the search never backtracks.
 */
export const KNOWN_SECRET =
  /\b(eyJ)[\w-]+(?:\.[\w-]*)*|(whsec_)[A-Za-z0-9+/=_-]*|\b(gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|xapp-|[rs]k_)[\w-]{16,}/g;

/** Removes tokens, secrets and card numbers. Only their parts that are not secret remain. */
export function scrubSecrets(text: string): string {
  const withoutKnownSecrets = text.replace(KNOWN_SECRET, '$1$2$3…');
  return scrubCardNumbers(
    withoutKnownSecrets.replace(OWN_TOKEN, (token, start: string) => (token === start ? token : `${start}…`)),
  );
}
