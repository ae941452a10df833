/** What a platform demands of a user's sign-in (RFC 9470, claims challenges), and whether an ID token meets it. Pure. */
import { isObject, parseJson } from '../json.ts';
import { tokenChallenge } from './challenges.ts';
import type { Claims } from './token-response.ts';

/** The parameters of the authorization request that meets the demand. */
export interface SignInDemand {
  /** Space-separated; one of them suffices. */
  acrValues?: string;
  maxAgeSeconds?: number;
  /** JSON (OpenID Connect Core section 5.5). */
  claims?: string;
}

const STEP_UP = 'insufficient_user_authentication';
const CLAIMS = 'insufficient_claims';
const MAX_ACR_VALUES = 10;
const MAX_ACR_LENGTH = 500;
/** Of the JSON: the URL of the authorization request has it percent-encoded. */
const MAX_CLAIMS_LENGTH = 1_000;
const ACR = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
const PRINTABLE = /^[\x20-\x7e]+$/;

/** Returns the demand of a response; `unusable` if it has one that cannot be met, since its form is wrong. */
export function readSignInDemand(
  response: Parameters<typeof tokenChallenge>[0],
): SignInDemand | 'unusable' | undefined {
  const challenge = tokenChallenge(response, [STEP_UP, CLAIMS]);
  if (!challenge) return undefined;
  return (challenge.error === CLAIMS ? readClaims(challenge.claims) : readStepUp(challenge)) ?? 'unusable';
}

/** RFC 9470 section 3. A demand without parameters is for a new sign-in. */
function readStepUp({ acr_values: acrText, max_age: age }: Readonly<Record<string, string>>): SignInDemand | undefined {
  const values = [...new Set((acrText ?? '').split(' ').filter(Boolean))];
  const acrValues = values.join(' ');
  if (acrText !== undefined && values.length === 0) return undefined;
  if (values.length > MAX_ACR_VALUES || acrValues.length > MAX_ACR_LENGTH) return undefined;
  if (!values.every((value) => ACR.test(value)) || (age !== undefined && !/^\d{1,9}$/.test(age))) return undefined;
  if (values.length === 0 && age === undefined) return { maxAgeSeconds: 0 };
  return { ...(values.length > 0 && { acrValues }), ...(age !== undefined && { maxAgeSeconds: Number(age) }) };
}

/** The claims are JSON, which Microsoft sends in base64 (or base64url). */
function readClaims(text = ''): SignInDemand | undefined {
  const json = text.startsWith('{') ? text : Buffer.from(text, 'base64').toString('utf8');
  const value = json.length <= 2 * MAX_CLAIMS_LENGTH ? parseJson(json) : undefined;
  if (!isObject(value) || Object.keys(value).length === 0) return undefined;
  const claims = JSON.stringify(value);
  return claims.length <= MAX_CLAIMS_LENGTH && PRINTABLE.test(claims) ? { claims } : undefined;
}

export type UnmetPart = 'acr' | 'auth_time' | 'auth_time_missing';

/** How far the provider's clock may differ, in seconds. */
const TOLERANCE_SECONDS = 30;
const MAX_AHEAD_SECONDS = 60;

/**
 * Returns the part of the demand that an ID token does not meet. `claims` of the demand are not checked: the provider
 * issues no tokens if it does not meet essential ones, and only the platform knows what they mean.
 * @param times milliseconds since the epoch. `requestedAt`: of the authorization request, which the age is counted to
 */
export function unmetPart(
  { acrValues, maxAgeSeconds }: SignInDemand,
  { acr, auth_time: authTime }: Claims,
  { requestedAt, now }: { requestedAt: number; now: number },
): UnmetPart | undefined {
  if (acrValues !== undefined && !(typeof acr === 'string' && acrValues.split(' ').includes(acr))) return 'acr';
  if (maxAgeSeconds === undefined) return undefined;
  // Providers that do not know the time send no `auth_time`, or 0.
  if (typeof authTime !== 'number' || authTime <= 0) return 'auth_time_missing';
  const isTooOld = requestedAt / 1000 - authTime > maxAgeSeconds + TOLERANCE_SECONDS;
  return isTooOld || authTime - now / 1000 > MAX_AHEAD_SECONDS ? 'auth_time' : undefined;
}
