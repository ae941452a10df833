/** Error codes in a provider's responses: which may be shown, and which refuse the client or the code. Pure. */
import { containsCardNumber } from '../observability/card-numbers.ts';

/** RFC 6749 appendix A.7, without the space. Other text of a provider is not repeated (R22). */
const CODE = /^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/;

/** @param secrets of the request; an error code that repeats one is dropped */
export function oauthErrorOf(value: unknown, secrets: readonly (string | undefined)[] = []): string | undefined {
  if (typeof value !== 'string' || !CODE.test(value) || containsCardNumber(value)) return undefined;
  return secrets.some((secret) => secret && value.includes(secret)) ? undefined : value;
}

/**
 * A wrong client ID or secret: RFC 6749 section 5.2, GitHub ("Troubleshooting OAuth app access token request errors")
 * and Slack (`oauth.v2.access`). The last three are similar spellings that no provider is known to document.
 */
const CLIENT_REFUSALS: ReadonlySet<string | undefined> = new Set([
  'invalid_client',
  'incorrect_client_credentials',
  'bad_client_secret',
  'invalid_client_id',
  'bad_client_id',
  'invalid_client_secret',
  'invalid_client_credentials',
]);

export function isClientRefusal(oauthError: string | undefined): boolean {
  return CLIENT_REFUSALS.has(oauthError);
}

/**
 * A code that is wrong, used, expired or issued for another callback URL; the sources are those of `CLIENT_REFUSALS`.
 */
const CODE_REFUSALS: ReadonlySet<string | undefined> = new Set([
  'invalid_grant',
  'invalid_code',
  'bad_verification_code',
  'redirect_uri_mismatch',
  'bad_redirect_uri',
]);

export function isCodeRefusal(oauthError: string | undefined): boolean {
  return CODE_REFUSALS.has(oauthError);
}
