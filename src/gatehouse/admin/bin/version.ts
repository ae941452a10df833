/** Stored BIN data sets in JSON and notices. */
import { z } from 'zod';
import type { Notice } from '../../../shared/pages/page-data.ts';
import type { Bins } from '../../bin/bin.ts';
import type { UsedDataset } from '../../bin/rollback.ts';

export const versionJson = z.object({
  id: z.string(),
  source: z.string(),
  asOf: z.iso.date(),
  licence: z.string(),
  rows: z.int(),
});

export const versionView = ({ id, source, asOf, licence, size: rows }: UsedDataset) => ({
  id,
  source,
  asOf,
  licence,
  rows,
});

/** Returns whether `BIN_DATASET_FILE` is set, in which case stored data sets are not used. */
export function isFileInUse({ dataset }: Pick<Bins, 'dataset'>): boolean {
  return dataset.current() !== undefined && dataset.version() === undefined;
}

/** Returns the notice after a change of the stored data set. @param change a sentence that describes the change */
export function noticeOf(bins: Pick<Bins, 'dataset'>, change: string): Notice {
  return isFileInUse(bins)
    ? { tone: 'warning', text: `${change} BIN_DATASET_FILE takes precedence. Unset it and restart to use this data.` }
    : { tone: 'success', text: `${change} All processes use it within two seconds.` };
}
