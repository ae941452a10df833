/** Refusals of a lookup: codes, details, and the problem document (RFC 9457). */
import { PROBLEMS } from '../shared/errors.ts';

/** Problem codes of Gatehouse, and one for API keys. */
export const LOOKUP_PROBLEMS = {
  invalid_bin: PROBLEMS.invalid_bin,
  invalid_request: PROBLEMS.invalid_request,
  api_key_invalid: { status: 401, title: 'The API key is not valid' },
  not_allowed: PROBLEMS.not_allowed,
  bin_not_found: PROBLEMS.bin_not_found,
  not_found: PROBLEMS.not_found,
  method_not_allowed: PROBLEMS.method_not_allowed,
  bin_quota_exhausted: PROBLEMS.bin_quota_exhausted,
  rate_limited: PROBLEMS.rate_limited,
  storage_unavailable: PROBLEMS.storage_unavailable,
  internal: PROBLEMS.internal,
} as const;

export type LookupProblemCode = keyof typeof LOOKUP_PROBLEMS;

export const PROBLEM_CODES = Object.keys(LOOKUP_PROBLEMS);

export interface Refusal {
  code: LookupProblemCode;
  /** The reason, for a code that has several. */
  rule?: keyof typeof RULES;
  headers?: Readonly<Record<string, string>>;
}

/** These texts never repeat any part of the request. A part in braces is left out if there is no account page. */
const DETAILS: Partial<Record<LookupProblemCode, string>> = {
  invalid_bin: 'Send the first 6 to 8 digits of the card number, and only digits. Never send a full card number.',
  invalid_request: 'Send one API key in one place: as Bearer, as the user name of Basic, or as apiKey.',
  api_key_invalid: 'Check the API key, or leave it out to use the free tier.{ Create keys on the account page.}',
  bin_not_found: 'Check the digits, or try more of them: up to 8.',
  not_found: 'Use GET /BIN, where BIN is the first 6 to 8 digits of a card number.',
  method_not_allowed: 'This service is read-only: use GET.',
  storage_unavailable: 'Try again in a few seconds.',
};

const RULES = {
  address_not_listed: 'This key may not be used from your address.{ Add the address on the account page.}',
  no_plan: 'The account of this key has no plan.{ Choose one on the account page and wait until it is confirmed.}',
  banned:
    'Your address continued to call after it was refused, and is banned for now. Wait as long as Retry-After says.',
  free_used_up:
    'Your address has used up its free lookups for this month. Wait for the next month (UTC){, or create a key on the account page}.',
  plan_used_up:
    'Your plan’s lookups for this month are used up. Wait for the next month (UTC){, or choose a larger plan on the account page}.',
  free_too_fast:
    'These are more free requests than your address may send in a minute. Wait as long as Retry-After says{, or create a key on the account page}.',
  plan_too_fast:
    'These are more requests than your plan allows in a minute. Wait as long as Retry-After says{, or choose a larger plan on the account page}.',
} as const;

/** @param id a UUID, also in `X-Request-Id`; `accountUrl`: undefined without an account page */
export function problemDocument(
  { code, rule }: Refusal,
  id: string,
  accountUrl: string | undefined,
): { status: number; body: string } {
  const { status, title } = LOOKUP_PROBLEMS[code];
  const text = rule === undefined ? DETAILS[code] : RULES[rule];
  const detail = text?.replace(/\{(.*)\}/, (_braces, offer: string) =>
    accountUrl === undefined ? '' : offer.replace('the account page', `the account page (${accountUrl})`),
  );
  const document = {
    type: `urn:gatehouse:problem:${code}`,
    title,
    status,
    ...(detail && { detail }),
    instance: `urn:uuid:${id}`,
    code,
  };
  return { status, body: JSON.stringify(document) };
}
