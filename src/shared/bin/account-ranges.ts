/**
 * Ranges of more than 8 digits, as card networks publish them. A BIN has fewer digits and may cover several ranges; it
 * gets the facts that all of them share.
 */
import { type EntryFacts, factIn, recordOf } from './record.ts';

/** Networks assign ranges by the first 11 digits. Longer limits of a range are padded with 0 or 9. */
const DIGITS = 11;

/** The number of 11-digit account numbers that an 8-digit BIN covers. */
export const NUMBERS_OF_BIN = 10 ** (DIGITS - 8);

/** The limits are inclusive. */
export interface NumberRange {
  from: number;
  to: number;
}

/**
 * Returns the range as 11-digit numbers; undefined unless both limits have the same length, from 9 to 19 digits, and
 * are padded after the 11th digit.
 */
export function accountRangeOf({ start, end }: { start: string; end: string }): NumberRange | undefined {
  if (start.length !== end.length || !/^\d{9,11}0*$/.test(start) || !/^\d{9,11}9*$/.test(end)) return undefined;
  if (start.length > 19) return undefined;
  const from = Number(start.slice(0, DIGITS).padEnd(DIGITS, '0'));
  return { from, to: Number(end.slice(0, DIGITS).padEnd(DIGITS, '9')) };
}

/** Returns the BINs that the range covers completely, and those that it covers in part. A BIN has `size` numbers. */
export function binsOfRange({ from, to }: NumberRange, size: number): { whole?: [number, number]; parts: number[] } {
  const first = Math.ceil(from / size);
  const last = Math.floor((to + 1) / size) - 1;
  const edges = [...new Set([Math.floor(from / size), Math.floor(to / size)])];
  const parts = edges.filter((bin) => bin < first || bin > last);
  return first <= last ? { whole: [first, last], parts } : { parts };
}

/** Returns whether the ranges cover each account number of the 8-digit BIN. */
export function coversBin(bin: number, ranges: readonly NumberRange[]): boolean {
  let next = bin * NUMBERS_OF_BIN;
  for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from))
    if (from <= next) next = Math.max(next, to + 1);
  return next >= (bin + 1) * NUMBERS_OF_BIN;
}

/** Returns the facts that both entries have. `country` is empty if the entries name different countries. */
export function sharedFacts(a: EntryFacts, b: EntryFacts): EntryFacts {
  const facts = recordOf((field) => {
    const fact = factIn(a, field);
    return fact === factIn(b, field) ? fact : undefined;
  });
  return { ...facts, country: a.country === b.country ? a.country : '' };
}
