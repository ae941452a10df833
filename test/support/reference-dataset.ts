/** A simple reference implementation of data sets, which reads every entry for every number. */
import type { DatasetEntry } from '../../src/shared/bin/dataset-builder.ts';

/** Prefers the most digits, then the narrowest range, then the last entry. */
export function findByScan(entries: readonly DatasetEntry[], digits: string): DatasetEntry | undefined {
  let best: DatasetEntry | undefined;
  for (const entry of entries) {
    const head = digits.slice(0, entry.start.length);
    const fits = head.length === entry.start.length && entry.start <= head && head <= entry.end;
    if (fits && (!best || !isBetter(best, entry))) best = entry;
  }
  return best;
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
  const [low, high] = [Number(digits.padEnd(11, '0')), Number(digits.padEnd(11, '9'))];
  const ranges = entries.map((entry) => {
    const [from, to] = [Number(entry.start.padEnd(11, '0')), Number(entry.end.padEnd(11, '9'))];
    return { entry, from, to, inside: from <= high && to >= low && (from > low || to < high) };
  });
  const inside = ranges.filter((range) => range.inside);
  const size = high - low + 1;
  // Among the ranges that contain the whole BIN, the narrowest applies.
  const around = findByScan(
    ranges.map(({ entry, from, to }) => {
      return { ...entry, start: String(Math.ceil(from / size)), end: String(Math.floor((to + 1) / size) - 1) };
    }),
    digits,
  );
  if (inside.length === 0) return around && { facts: factsInCommon([around]), coversWholeBin: true };
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
    facts: factsInCommon(around ? [...insideEntries, around] : insideEntries),
    coversWholeBin: around !== undefined || covered,
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
