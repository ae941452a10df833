/** Owns who may look up: the key or the address it is counted by, allowed addresses, bans, and the month's limit. */
import type { IncomingMessage } from 'node:http';
import type { Accounts, KeyAccess } from './accounts.ts';
import type { Bans } from './bans.ts';
import type { Caller } from './caller-address.ts';
import { readCredentials } from './credentials.ts';
import { FREE_PLAN } from './plans.ts';
import type { Refusal } from './problems.ts';
import type { Quota, Taken } from './quota.ts';
import { rateLimit, rateLimitPolicy } from './rate-headers.ts';

/** `headers`: by turns name and value, for every answer to this caller. */
export type Admission = { refusal?: Refusal; headers: readonly string[] };

export interface Admissions {
  /**
   * Takes one look-up from the caller's month, and answers at once where nothing has to be asked for.
   * Rejects with `storage_unavailable`.
   */
  admit(req: IncomingMessage, query: string): Admission | Promise<Admission>;
}

/** Who is counted, under which plan, and who is banned for going on. */
interface Counted {
  subject: string;
  plan: string;
  limit: number;
  banned: string;
  isFree: boolean;
}

const CHALLENGE = { 'WWW-Authenticate': 'Bearer error="invalid_token"' };
const KEY_REFUSED: Refusal = { code: 'api_key_invalid', headers: CHALLENGE };

export function createAdmissions(parts: {
  callerOf: (req: IncomingMessage) => Caller;
  /** Left out: no key is valid. */
  accounts: Pick<Accounts, 'accessOf'> | undefined;
  quota: Quota;
  bans: Bans;
  freeMonthlyRequests: number;
}): Admissions {
  const { callerOf, accounts, quota, bans, freeMonthlyRequests } = parts;

  const taken = ({ plan, limit, banned, isFree }: Counted, take: Taken): Admission | Promise<Admission> => {
    const { granted, remaining, resetSeconds, month } = take;
    const headers = [
      ...['RateLimit-Policy', rateLimitPolicy(plan, limit, month)],
      ...['RateLimit', rateLimit(plan, remaining, resetSeconds)],
    ];
    if (granted) return { headers };
    const usedUp: Admission = { refusal: spent(isFree, resetSeconds), headers };
    const ban = bans.noteRefusal(banned);
    const decide = (seconds: number) => (seconds > 0 ? bannedFor(seconds) : usedUp);
    return typeof ban === 'number' ? decide(ban) : ban.then(decide);
  };

  const count = (counted: Counted): Admission | Promise<Admission> => {
    const seconds = bans.secondsLeft(counted.banned);
    if (seconds > 0) return bannedFor(seconds);
    const take = quota.take(counted.subject, counted.limit);
    return 'then' in take ? take.then((later) => taken(counted, later)) : taken(counted, take);
  };

  const countFree = ({ countedAs }: Caller) => {
    const subject = freeSubject(countedAs);
    return count({ subject, plan: FREE_PLAN, limit: freeMonthlyRequests, banned: subject, isFree: true });
  };

  /** Guesses count towards a ban as refusals do. */
  const refuseKey = async ({ countedAs }: Caller): Promise<Admission> => {
    const seconds = await bans.noteRefusal(freeSubject(countedAs));
    return seconds > 0 ? bannedFor(seconds) : { refusal: KEY_REFUSED, headers: [] };
  };

  const countKey = (caller: Caller, access: KeyAccess | undefined): Admission | Promise<Admission> => {
    if (!access) return refuseKey(caller);
    if (!access.allows(caller.address)) return forbidden('address_not_listed');
    if (!access.plan) return forbidden('no_plan');
    const { name, monthlyRequests } = access.plan;
    const subject = accountSubject(access.accountId);
    const banned = `${subject} ${caller.countedAs}`;
    return count({ subject, plan: name, limit: monthlyRequests, banned, isFree: false });
  };

  return {
    admit(req, query) {
      const credentials = readCredentials(req, query);
      const caller = callerOf(req);
      if (credentials.kind === 'none') return countFree(caller);
      if (credentials.kind === 'doubled') return { refusal: { code: 'invalid_request' }, headers: [] };
      const access = credentials.kind === 'key' ? accounts?.accessOf(credentials.key) : undefined;
      return access && 'then' in access ? access.then((found) => countKey(caller, found)) : countKey(caller, access);
    },
  };
}

export function freeSubject(countedAs: string): string {
  return `address ${countedAs}`;
}

export function accountSubject(accountId: string): string {
  return `account ${accountId}`;
}

function spent(isFree: boolean, resetSeconds: number): Refusal {
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
