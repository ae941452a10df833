/** Why an ID token was refused: the check that failed, and the difference between the clocks. Pure. */
import { isObject } from '../json.ts';
import { TENANT_ID } from './issuer.ts';

type IdTokenCheck = 'form' | 'times' | 'issuer' | 'tenant' | 'audience' | 'nonce' | 'signature';

interface IdTokenFault {
  check: IdTokenCheck;
  /** How far our clock is ahead of the time at which the provider issued the token. */
  secondsAhead?: number;
  /** The tenant of a token whose tenant was refused. */
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
  nonce: 'nonce',
};

/** Codes of `jose` for a signature by a key that is not the provider's. */
const KEY_FAULTS: unknown[] = ['ERR_JWS_SIGNATURE_VERIFICATION_FAILED', 'ERR_JWKS_NO_MATCHING_KEY'];

/** @param error from the libraries, or a `RefusedJwt`; classified by codes and claims, never by its message */
export function idTokenFault(error: unknown): IdTokenFault {
  for (const link of chainOf(error)) {
    const { claim, claims, now, code } = link;
    const check = typeof claim === 'string' ? BY_CLAIM[claim] : undefined;
    if (check === 'times') return { check, ...aheadOf(claims, now) };
    if (check === 'tenant') return { check, ...tenantIn(claims) };
    if (check) return { check };
    if (KEY_FAULTS.includes(code)) return { check: 'signature' };
  }
  return { check: 'form' };
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
