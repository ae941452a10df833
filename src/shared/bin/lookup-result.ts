/** The result of a BIN lookup, its age, and its response headers. */
import { z } from 'zod';
import { DAY_MS } from '../time.ts';
import type { BinRecord } from './record.ts';

export const sourceSchema = z.enum(['dataset', 'service', 'cache', 'rules']);
export type LookupSource = z.output<typeof sourceSchema>;

export interface LookupFound {
  record: BinRecord;
  source: LookupSource;
  /** Date of the data set or the rules, YYYY-MM-DD. If a service sends no date, the date of its response. */
  asOf: string;
  digitsMatched: number;
  /** Set if the facts are more than two years old. */
  outdated?: true;
  /** Set for a test card of a payment provider. */
  testData?: true;
  /** Why the service, which may have more facts, could not be called. */
  serviceProblem?: LookupProblem;
  problem?: never;
}

/** A budget of calls to the service. `unreserved`: the part of the month's calls that is not reserved for users. */
export type BinBudget = 'user' | 'relay_token' | 'unreserved' | 'month';

/** A failed lookup. `retryAfterSeconds`: absent for `bin_not_found`. `spent`: the exhausted budget, if any. */
export interface LookupProblem {
  problem: 'bin_not_found' | 'bin_quota_exhausted' | 'bin_service_unavailable';
  retryAfterSeconds?: number;
  spent?: BinBudget;
}

export type LookupResult = LookupFound | LookupProblem;

const TWO_YEARS_MS = 2 * 365 * DAY_MS;

/** Sets `outdated` if the facts are old. @param now milliseconds since the epoch */
export function withAge(found: LookupFound, now: number): LookupFound {
  return isOutdated(found.asOf, now) ? { ...found, outdated: true } : found;
}

/** Returns whether facts are more than two years old. @param asOf their date (ISO 8601) */
export const isOutdated = (asOf: string, now: number): boolean => Date.parse(asOf) < now - TWO_YEARS_MS;

/** Returns the headers about the source of the record. `Retry-After`: when the service may return more facts. */
export function recordHeaders(found: LookupFound): Record<string, string> {
  const { source, asOf, digitsMatched, outdated, testData, serviceProblem } = found;
  const headers: Record<string, string> = {
    'Gatehouse-Source': source,
    'Gatehouse-As-Of': asOf,
    'Gatehouse-Digits-Matched': String(digitsMatched),
  };
  if (outdated) headers['Gatehouse-Outdated'] = 'true';
  if (testData) headers['Gatehouse-Test-Data'] = 'true';
  if (serviceProblem?.retryAfterSeconds !== undefined)
    headers['Retry-After'] = String(serviceProblem.retryAfterSeconds);
  return headers;
}
