/** Why an ID token was refused: the check that failed, and the difference between the clocks. Pure. */
import { isObject } from '../json.ts';
import { TENANT_ID } from './issuer.ts';

type IdTokenCheck = 'form' | 'times' | 'issuer' | 'tenant' | 'audience' | 'nonce' | 'signature';

interface IdTokenFault {
  check: IdTokenCheck;
  /** How far our clock is ahead of the time at which the provider issued the token. */
  secondsAhead?: number;
  /** A claim that the token lacks, or has in a form that is not allowed. */
  missing?: string;
  malformed?: string;
  /** What was seen, in words. */
  seen?: string;
}

const BY_CLAIM: Readonly<Record<string, IdTokenCheck>> = {
  exp: 'times',
  iat: 'times',
  nbf: 'times',
  auth_time: 'times',
  iss: 'issuer',
  tid: 'tenant',
  aud: 'audience',
  azp: 'audience',
  sub: 'form',
  nonce: 'nonce',
};

/** The claims that an ID token needs, in the order in which the library looks at them, and the others that it reads. */
const CLAIM_TYPES: readonly [claim: string, isRequired: boolean, isValid: (value: unknown) => boolean][] = [
  ['exp', true, isNumber],
  ['iat', true, isNumber],
  ['iss', true, isText],
  ['nbf', false, isNumber],
  ['aud', true, (value) => isText(value) || Array.isArray(value)],
  ['sub', true, isText],
  ['auth_time', false, isNumber],
  ['nonce', true, isText],
];

/** Codes of `jose` for a signature by a key that is not the provider's. */
const KEY_FAULTS: unknown[] = ['ERR_JWS_SIGNATURE_VERIFICATION_FAILED', 'ERR_JWKS_NO_MATCHING_KEY'];

const NO_ID_TOKEN: IdTokenFault = { check: 'form', missing: 'id_token', seen: 'the token response has no ID token' };

/** @param error from the libraries, or a `RefusedJwt`; classified by codes and claims, never by its message */
export function idTokenFault(error: unknown): IdTokenFault {
  for (const link of chainOf(error)) {
    const { claims, now, code } = link;
    const claim = refusedClaimOf(link);
    const check = claim === undefined ? undefined : BY_CLAIM[claim];
    const formFault = claim !== undefined && isObject(claims) ? formFaultOf(claim, claims) : {};
    if (check && 'seen' in formFault) return { check, ...formFault };
    if (check === 'times') return { check, ...aheadOf(claims, now) };
    if (check === 'tenant') return { check, ...tenantIn(claims) };
    if (check) return { check };
    if (isObject(link.body) && link.body.id_token === undefined) return NO_ID_TOKEN;
    if (KEY_FAULTS.includes(code)) return { check: 'signature' };
  }
  return { check: 'form' };
}

/** The libraries name no claim that is missing or of another type than allowed: it is the first such one. */
function refusedClaimOf({ claim, claims, expected, now }: Record<string, unknown>): string | undefined {
  if (!isObject(claims)) return typeof claim === 'string' ? claim : undefined;
  // Several audiences without `azp`. A wrong audience has `expected`, and our own refusal `now`.
  const isPartyMissing = claim === 'aud' && Array.isArray(claims.aud) && expected === undefined && now === undefined;
  if (isPartyMissing && claims.azp === undefined) return 'azp';
  if (typeof claim === 'string') return claim;
  const [name] = CLAIM_TYPES.find(([type, isRequired, isValid]) => {
    const value = claims[type];
    return value === undefined ? isRequired : !isValid(value);
  }) ?? [undefined];
  return name;
}

function formFaultOf(claim: string, claims: Record<string, unknown>): Partial<IdTokenFault> {
  const value = claims[claim];
  const [, isRequired = claim === 'azp', isValid = () => true] = CLAIM_TYPES.find(([name]) => name === claim) ?? [];
  if (value === undefined) return isRequired ? { missing: claim, seen: `“${claim}” is missing` } : {};
  // A `sub` that is refused is a text of another length or with other characters.
  return isValid(value) && claim !== 'sub'
    ? {}
    : { malformed: claim, seen: `“${claim}” has a form that is not allowed` };
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number';
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

/** The e-mail address in the claims of a refused token. */
export function unverifiedEmailIn(error: unknown): string | undefined {
  for (const { claims } of chainOf(error)) {
    const { email } = isObject(claims) ? claims : {};
    if (typeof email === 'string' && /^[^\s@]{1,100}@[^\s@]{1,100}$/.test(email)) return email;
  }
  return undefined;
}

function tenantIn(claims: unknown): Pick<IdTokenFault, 'seen'> {
  const { tid } = isObject(claims) ? claims : {};
  return typeof tid === 'string' && TENANT_ID.test(tid) ? { seen: `tenant ${tid}` } : {};
}

function aheadOf(claims: unknown, now: unknown): Pick<IdTokenFault, 'secondsAhead'> {
  const { iat, nbf } = isObject(claims) ? claims : {};
  const issued = typeof iat === 'number' ? iat : nbf;
  // If `nbf` is in the future, the provider's clock is ahead and shows at least that time.
  const providerTime = typeof nbf === 'number' && typeof now === 'number' && nbf > now ? nbf : issued;
  return typeof providerTime === 'number' && typeof now === 'number'
    ? { secondsAhead: Math.round(now - providerTime) }
    : {};
}

function chainOf(error: unknown, depth = 0): Record<string, unknown>[] {
  return isObject(error) && depth <= 6 ? [error, ...chainOf(error.cause, depth + 1)] : [];
}
