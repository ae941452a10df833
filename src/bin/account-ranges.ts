/**
 * Ranges of more than 8 digits, as card networks publish them. A BIN has fewer digits, so it gets the facts that all
 * ranges share which it covers.
 */
import type { DatasetEntry, EntryFacts } from './dataset.ts';
import { withoutEmpty } from './record.ts';

/** Networks assign ranges by the first 11 digits; a longer limit is filled up with 0 or 9. */
const DIGITS = 11;

/** `from` and `to` (inclusive) are numbers of 11 digits. */
export interface AccountRange {
  from: number;
  to: number;
  entry: DatasetEntry;
}

/** Undefined unless both limits have the same length of 9 to 19 digits, of which 11 at most tell ranges apart. */
export function accountRangeOf(entry: DatasetEntry): AccountRange | undefined {
  const { start, end } = entry;
  if (start.length !== end.length || !/^\d{9,11}0*$/.test(start) || !/^\d{9,11}9*$/.test(end)) return undefined;
  if (start.length > 19) return undefined;
  const from = Number(start.slice(0, DIGITS).padEnd(DIGITS, '0'));
  return { from, to: Number(end.slice(0, DIGITS).padEnd(DIGITS, '9')), entry };
}

/** The BINs of so many digits that the range holds completely, and those that it holds a part of. */
export function binsOfRange({ from, to }: AccountRange, digits: number): { whole?: [number, number]; parts: number[] } {
  const size = 10 ** (DIGITS - digits);
  const first = Math.ceil(from / size);
  const last = Math.floor((to + 1) / size) - 1;
  const edges = [...new Set([Math.floor(from / size), Math.floor(to / size)])];
  const parts = edges.filter((bin) => bin < first || bin > last);
  return first <= last ? { whole: [first, last], parts } : { parts };
}

/** The facts in which all of these agree. `country` is empty if they name several. */
export function sharedFacts(entries: readonly EntryFacts[]): EntryFacts {
  const shared = <T>(read: (entry: EntryFacts) => T): T | undefined => {
    const [first, ...others] = entries.map(read);
    return others.every((value) => value === first) ? first : undefined;
  };
  const facts = withoutEmpty({
    scheme: shared(({ scheme }) => scheme),
    type: shared(({ type }) => type),
    brand: shared(({ brand }) => brand),
    prepaid: shared(({ prepaid }) => prepaid),
    number: withoutEmpty({
      length: shared(({ number }) => number?.length),
      luhn: shared(({ number }) => number?.luhn),
    }),
    bank: withoutEmpty({
      name: shared(({ bank }) => bank?.name),
      url: shared(({ bank }) => bank?.url),
      phone: shared(({ bank }) => bank?.phone),
      city: shared(({ bank }) => bank?.city),
    }),
  });
  return { ...facts, country: shared(({ country }) => country) ?? '' };
}
