/** Helpers for BIN tests: parsed BINs, card numbers with a valid Luhn digit, tiny data sets. */

import type { Dataset } from '../../src/shared/bin/dataset.ts';
import { createDataset, type DatasetEntry } from '../../src/shared/bin/dataset-builder.ts';
import { type Bin, parseBin } from '../../src/shared/bin/parse-bin.ts';

export function bin(digits: string): Bin {
  const parsed = parseBin(digits);
  if (!parsed.bin) throw new TypeError('The test uses an invalid BIN.');
  return parsed.bin;
}

/** Appends the check digit of ISO/IEC 7812-1 annex B. */
export function withCheckDigit(digits: string): string {
  const sum = [...digits].reverse().reduce((total, digit, index) => {
    const value = Number(digit) * (index % 2 === 0 ? 2 : 1);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return `${digits}${(10 - (sum % 10)) % 10}`;
}

export function datasetOf(...entries: DatasetEntry[]): Dataset {
  return createDataset({ entries, source: 'test', asOf: '2026-01-02', licence: 'none' });
}
