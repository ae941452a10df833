/** Owns what a look-up answers, whatever the source. */
import type { Dataset, DatasetHit } from './dataset.ts';
import type { BinRecord } from './record.ts';

export type LookupSource = 'dataset' | 'service' | 'cache' | 'rules';

export interface LookupFound {
  record: BinRecord;
  source: LookupSource;
  /** YYYY-MM-DD: date of the data set, of the service's answer, or of the rules. */
  asOf: string;
  digitsMatched: number;
  problem?: never;
}

/** `retryAfterSeconds`: whole seconds, present for all but `bin_not_found`. */
export interface LookupProblem {
  problem: 'bin_not_found' | 'bin_quota_exhausted' | 'bin_service_unavailable';
  retryAfterSeconds?: number;
}

export type LookupAnswer = LookupFound | LookupProblem;

export function fromDataset(dataset: Dataset, hit: DatasetHit): LookupFound {
  return { record: hit.record, source: 'dataset', asOf: dataset.asOf, digitsMatched: hit.digitsMatched };
}
