/** A simple reference implementation of data sets, which reads every entry for every number. */
import type { DatasetEntry } from '../../src/shared/bin/dataset-builder.ts';

/** Prefers the most digits, then the narrowest range, then the last entry. */
export function findByScan(entries: readonly DatasetEntry[], digits: string): DatasetEntry | undefined {
  let bestEntry: DatasetEntry | undefined;
  for (const entry of entries) {
    const head = digits.slice(0, entry.start.length);
    const fits = head.length === entry.start.length && entry.start <= head && head <= entry.end;
    if (fits && (!bestEntry || !isBetter(bestEntry, entry))) bestEntry = entry;
  }
  return bestEntry;
}

function isBetter(best: DatasetEntry, entry: DatasetEntry): boolean {
  const extraDigits = best.start.length - entry.start.length;
  return extraDigits > 0 || (extraDigits === 0 && width(best) < width(entry));
}

function width(entry: DatasetEntry): number {
  return Number(entry.end) - Number(entry.start);
}

interface SharedFacts {
  facts: { brand: string | undefined; prepaid: boolean | undefined; country: string | undefined };
  /** Whether the ranges contain each number of the BIN. */
  coversWholeBin: boolean;
}

/** For ranges of 8 or more digits: reads every entry for every BIN, and tests each number of the BIN. */
export function factsByScan(entries: readonly DatasetEntry[], digits: string): SharedFacts | undefined {
  const low = Number(digits.padEnd(11, '0'));
  const high = Number(digits.padEnd(11, '9'));
  const ranges = entries.map((entry) => {
    const from = Number(entry.start.padEnd(11, '0'));
    const to = Number(entry.end.padEnd(11, '9'));
    const overlaps = from <= high && to >= low;
    const containsWholeBin = from <= low && to >= high;
    return { entry, from, to, dividesBin: overlaps && !containsWholeBin };
  });
  const inside = ranges.filter((range) => range.dividesBin);
  const size = high - low + 1;
  // Among the ranges that contain the whole BIN, the narrowest applies.
  const enclosingEntry = findByScan(
    ranges.map(({ entry, from, to }) => {
      return { ...entry, start: String(Math.ceil(from / size)), end: String(Math.floor((to + 1) / size) - 1) };
    }),
    digits,
  );
  if (inside.length === 0) return enclosingEntry && { facts: factsInCommon([enclosingEntry]), coversWholeBin: true };
  if (digits.length < 8) {
    const longer = Array.from('0123456789', (digit) => factsByScan(entries, digits + digit));
    const defined = longer.filter((share) => share !== undefined);
    return {
      facts: factsInCommon(defined.map(({ facts }) => facts)),
      coversWholeBin: longer.every((share) => share?.coversWholeBin),
    };
  }
  const numbers = Array.from({ length: size }, (_, index) => low + index);
  const covered = numbers.every((number) => inside.some(({ from, to }) => from <= number && number <= to));
  const insideEntries = inside.map(({ entry }) => entry);
  return {
    facts: factsInCommon(enclosingEntry ? [...insideEntries, enclosingEntry] : insideEntries),
    coversWholeBin: enclosingEntry !== undefined || covered,
  };
}

function factsInCommon(entries: readonly (Partial<DatasetEntry> | SharedFacts['facts'])[]): SharedFacts['facts'] {
  const valueInCommon = <T>(factOf: (entry: Partial<DatasetEntry> | SharedFacts['facts']) => T) =>
    new Set(entries.map(factOf)).size === 1 ? entries.map(factOf)[0] : undefined;
  return {
    brand: valueInCommon(({ brand }) => brand),
    prepaid: valueInCommon(({ prepaid }) => prepaid),
    country: valueInCommon(({ country }) => country),
  };
}
