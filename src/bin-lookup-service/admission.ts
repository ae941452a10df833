/** Decides whether a lookup is allowed: API key, allowed addresses, bans, the minute's rate, and the month's quota. */
import type { IncomingMessage } from 'node:http';
import { callerNetwork } from '../shared/config/networks.ts';
import { AppError } from '../shared/errors.ts';
import type { ClientAddress } from '../shared/http/client-address.ts';
import type { RateLimits } from '../shared/http/rate-limit.ts';
import type { Accounts, KeyAccess } from './accounts.ts';
import type { Bans } from './bans.ts';
import { readCredentials } from './credentials.ts';
import type { Month } from './month.ts';
import { FREE_PLAN, type FreeTier, MINUTE, type Plan } from './plans.ts';
import type { Refusal } from './problems.ts';
import type { Quota, QuotaResult } from './quota.ts';

/** The decision on a request. `headers`: alternating names and values, for the response to this caller. */
export type Admission = { refusal?: Refusal; headers: readonly string[] };

export interface Admissions {
  /**
   * Charges one lookup to the caller. Returns synchronously if it needs no access to the store.
   * Rejects with `storage_unavailable`.
   */
  admit(req: IncomingMessage, query: string): Admission | Promise<Admission>;
}

/** The caller to which a request is charged. `banSubject` is banned after too many refusals. */
interface ChargedCaller {
  subject: string;
  plan: Plan;
  banSubject: string;
  isFree: boolean;
}

const CHALLENGE = { 'WWW-Authenticate': 'Bearer error="invalid_token"' };
const KEY_REFUSED: Refusal = { code: 'api_key_invalid', headers: CHALLENGE };

export function createAdmissions(parts: {
  addressOf: ClientAddress;
  /** Looks up keys; undefined if no key is valid. */
  accounts: Pick<Accounts, 'accessOf'> | undefined;
  quota: Quota;
  bans: Bans;
  limits: Pick<RateLimits, 'take'>;
  /** The limits of callers without a key. */
  free: FreeTier;
}): Admissions {
  const { addressOf, accounts, quota, bans, limits } = parts;
  const free: Plan = { ...parts.free, name: FREE_PLAN };

  const admissionOf = (
    { plan, banSubject, isFree }: ChargedCaller,
    charge: QuotaResult,
  ): Admission | Promise<Admission> => {
    const { granted, remaining, resetSeconds, month } = charge;
    const headers = [
      'RateLimit-Policy',
      rateLimitPolicy(plan, month),
      'RateLimit',
      rateLimit(plan.name, remaining, resetSeconds),
    ];
    if (granted) return { headers };
    const usedUp: Admission = { refusal: quotaSpent(isFree, resetSeconds), headers };
    const ban = bans.countRefusal(banSubject);
    const decide = (seconds: number) => (seconds > 0 ? bannedFor(seconds) : usedUp);
    return typeof ban === 'number' ? decide(ban) : ban.then(decide);
  };

  const charge = (caller: ChargedCaller): Admission | Promise<Admission> => {
    const seconds = bans.secondsLeft(caller.banSubject);
    if (seconds > 0) return bannedFor(seconds);
    const { subject, plan } = caller;
    const waitSeconds = takeFromMinute(limits, subject, plan);
    if (waitSeconds > 0) return tooFast(caller, waitSeconds);
    return quota.take(subject, plan.monthlyRequests).then((result) => admissionOf(caller, result));
  };

  const chargeFree = (address: string) => {
    const subject = freeSubject(address);
    return charge({ subject, plan: free, banSubject: subject, isFree: true });
  };

  /** Invalid keys count towards a ban, to prevent guessing. */
  const refuseKey = async (address: string): Promise<Admission> => {
    const seconds = await bans.countRefusal(freeSubject(address));
    return seconds > 0 ? bannedFor(seconds) : { refusal: KEY_REFUSED, headers: [] };
  };

  const chargeKey = (address: string, access: KeyAccess | undefined): Admission | Promise<Admission> => {
    if (!access) return refuseKey(address);
    if (!access.allows(address)) return forbidden('address_not_listed');
    if (!access.plan) return forbidden('no_plan');
    const subject = accountSubject(access.accountId);
    const banSubject = `${subject} ${callerNetwork(address)}`;
    return charge({ subject, plan: access.plan, banSubject, isFree: false });
  };

  return {
    admit(req, query) {
      const credentials = readCredentials(req, query);
      const address = addressOf(req);
      if (credentials.kind === 'none') return chargeFree(address);
      if (credentials.kind === 'several') return { refusal: { code: 'invalid_request' }, headers: [] };
      const access = credentials.kind === 'key' ? accounts?.accessOf(credentials.key) : undefined;
      return access && 'then' in access
        ? access.then((loaded) => chargeKey(address, loaded))
        : chargeKey(address, access);
    },
  };
}

/** Returns the seconds to wait; 0 if the request is within the rate of the plan. */
function takeFromMinute(limits: Pick<RateLimits, 'take'>, subject: string, { requestsPerMinute }: Plan): number {
  if (requestsPerMinute === undefined) return 0;
  try {
    limits.take('plan', subject, requestsPerMinute);
    return 0;
  } catch (error) {
    if (error instanceof AppError && error.code === 'rate_limited') return error.retryAfterSeconds ?? 1;
    throw error;
  }
}

function tooFast({ plan: { requestsPerMinute = 0 }, isFree }: ChargedCaller, seconds: number): Admission {
  const headers = {
    'Retry-After': String(seconds),
    'RateLimit-Policy': minutePolicy(requestsPerMinute),
    RateLimit: rateLimit(MINUTE, 0, seconds),
  };
  return { refusal: { code: 'rate_limited', rule: isFree ? 'free_too_fast' : 'plan_too_fast', headers }, headers: [] };
}

export function freeSubject(address: string): string {
  return `address ${callerNetwork(address)}`;
}

export function accountSubject(accountId: string): string {
  return `account ${accountId}`;
}

function quotaSpent(isFree: boolean, resetSeconds: number): Refusal {
  const headers = { 'Retry-After': String(resetSeconds) };
  return { code: 'bin_quota_exhausted', rule: isFree ? 'free_used_up' : 'plan_used_up', headers };
}

function bannedFor(seconds: number): Admission {
  const headers = { 'Retry-After': String(seconds) };
  return { refusal: { code: 'not_allowed', rule: 'banned', headers }, headers: [] };
}

function forbidden(rule: 'address_not_listed' | 'no_plan'): Admission {
  return { refusal: { code: 'not_allowed', rule }, headers: [] };
}

/**
 * Returns each quota and its window in seconds (draft-ietf-httpapi-ratelimit-headers), for example
 * `"free";q=10000;w=2592000, "minute";q=12000;w=60`.
 */
export function rateLimitPolicy({ name, monthlyRequests, requestsPerMinute }: Plan, { start, end }: Month): string {
  const monthly = `"${name}";q=${monthlyRequests};w=${(end - start) / 1000}`;
  return requestsPerMinute === undefined ? monthly : `${monthly}, ${minutePolicy(requestsPerMinute)}`;
}

/** Returns only the policy of the minute, for a request that exceeds it. */
function minutePolicy(requestsPerMinute: number): string {
  return `"${MINUTE}";q=${requestsPerMinute};w=60`;
}

/** Returns the remaining requests and the seconds until the reset, for example `"free";r=9999;t=3600`. */
export function rateLimit(policy: string, remaining: number, resetSeconds: number): string {
  return `"${policy}";r=${remaining};t=${resetSeconds}`;
}
