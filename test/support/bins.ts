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
  let sum = 0;
  for (const [index, digit] of [...digits].reverse().entries()) {
    const isDoubled = index % 2 === 0;
    const value = isDoubled ? Number(digit) * 2 : Number(digit);
    // The digits of a doubled value are added: 14 counts as 1 + 4.
    sum += value > 9 ? value - 9 : value;
  }
  const checkDigit = (10 - (sum % 10)) % 10;
  return `${digits}${checkDigit}`;
}

export function datasetOf(...entries: DatasetEntry[]): Dataset {
  return createDataset({ entries, source: 'test', asOf: '2026-01-02', licence: 'none' });
}
