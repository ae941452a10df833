/** The result of a look-up, from whichever source. */

import { z } from 'zod';

import type { Dataset, DatasetHit } from './dataset.ts';
import type { BinBudget } from './quota.ts';
import type { BinRecord } from './record.ts';

export const sourceSchema = z.enum(['dataset', 'service', 'cache', 'rules']);
export type LookupSource = z.output<typeof sourceSchema>;

export interface LookupFound {
  record: BinRecord;
  source: LookupSource;
  /** YYYY-MM-DD: date of the data set, of the service's response, or of the rules. */
  asOf: string;
  digitsMatched: number;
  problem?: never;
}

/** `retryAfterSeconds`: whole seconds, absent for `bin_not_found`. `spent`: the budget that is used up, if any. */
export interface LookupProblem {
  problem: 'bin_not_found' | 'bin_quota_exhausted' | 'bin_service_unavailable';
  retryAfterSeconds?: number;
  spent?: BinBudget;
}

export type LookupResult = LookupFound | LookupProblem;

export function fromDataset(dataset: Dataset, hit: DatasetHit): LookupFound {
  return { record: hit.record, source: 'dataset', asOf: dataset.asOf, digitsMatched: hit.digitsMatched };
}
