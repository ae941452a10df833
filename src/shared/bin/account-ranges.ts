/**
 * Ranges of more than 8 digits, as card networks publish them. A BIN has fewer digits and may cover several ranges; it
 * gets the facts that all of them share.
 */
import { type EntryFacts, factIn, recordOf } from './record.ts';

/** Networks assign ranges by the first 11 digits; longer limits are padded with 0 or 9. */
const DIGITS = 11;

/** How many account numbers of 11 digits a BIN of 8 digits holds. */
export const NUMBERS_OF_BIN = 10 ** (DIGITS - 8);

/** Both are inclusive. */
export interface NumberRange {
  from: number;
  to: number;
}

/**
 * The range as numbers of 11 digits. Undefined unless both limits have the same length of 9 to 19 digits and are padded
 * after the 11th.
 */
export function accountRangeOf({ start, end }: { start: string; end: string }): NumberRange | undefined {
  if (start.length !== end.length || !/^\d{9,11}0*$/.test(start) || !/^\d{9,11}9*$/.test(end)) return undefined;
  if (start.length > 19) return undefined;
  const from = Number(start.slice(0, DIGITS).padEnd(DIGITS, '0'));
  return { from, to: Number(end.slice(0, DIGITS).padEnd(DIGITS, '9')) };
}

/** The BINs that the range covers completely, and those that it covers in part. A BIN holds `size` numbers. */
export function binsOfRange({ from, to }: NumberRange, size: number): { whole?: [number, number]; parts: number[] } {
  const first = Math.ceil(from / size);
  const last = Math.floor((to + 1) / size) - 1;
  const edges = [...new Set([Math.floor(from / size), Math.floor(to / size)])];
  const parts = edges.filter((bin) => bin < first || bin > last);
  return first <= last ? { whole: [first, last], parts } : { parts };
}

/** Whether each account number of the BIN of 8 digits is in one of the ranges. */
export function coversBin(bin: number, ranges: readonly NumberRange[]): boolean {
  let next = bin * NUMBERS_OF_BIN;
  for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from))
    if (from <= next) next = Math.max(next, to + 1);
  return next >= (bin + 1) * NUMBERS_OF_BIN;
}

/** The facts in which both agree. `country` is empty if they name different ones. */
export function sharedFacts(one: EntryFacts, other: EntryFacts): EntryFacts {
  const facts = recordOf((field) => {
    const fact = factIn(one, field);
    return fact === factIn(other, field) ? fact : undefined;
  });
  return { ...facts, country: one.country === other.country ? one.country : '' };
}
