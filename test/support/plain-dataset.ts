/** A simple reference implementation of data sets, which reads every entry for every number. */
import type { DatasetEntry } from '../../src/shared/bin/dataset-builder.ts';

/** Prefers the most digits, then the narrowest range, then the last entry. */
export function findPlainly(entries: readonly DatasetEntry[], digits: string): DatasetEntry | undefined {
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

interface Shared {
  facts: { brand: string | undefined; prepaid: boolean | undefined; country: string | undefined };
  /** Whether the ranges contain each number of the BIN. */
  whole: boolean;
}

/** For ranges of 8 or more digits: reads every entry for every BIN, and tests each number of the BIN. */
export function sharePlainly(entries: readonly DatasetEntry[], digits: string): Shared | undefined {
  const [low, high] = [Number(digits.padEnd(11, '0')), Number(digits.padEnd(11, '9'))];
  const ranges = entries.map((entry) => {
    const [from, to] = [Number(entry.start.padEnd(11, '0')), Number(entry.end.padEnd(11, '9'))];
    return { entry, from, to, inside: from <= high && to >= low && (from > low || to < high) };
  });
  const inside = ranges.filter((range) => range.inside);
  const size = high - low + 1;
  // Among the ranges that contain the whole BIN, the narrowest applies.
  const around = findPlainly(
    ranges.map(({ entry, from, to }) => {
      return { ...entry, start: String(Math.ceil(from / size)), end: String(Math.floor((to + 1) / size) - 1) };
    }),
    digits,
  );
  if (inside.length === 0) return around && { facts: shared([around]), whole: true };
  if (digits.length < 8) {
    const longer = Array.from('0123456789', (digit) => sharePlainly(entries, digits + digit));
    const defined = longer.filter((share) => share !== undefined);
    return {
      facts: shared(defined.map(({ facts }) => facts)),
      whole: longer.every((share) => share?.whole),
    };
  }
  const numbers = Array.from({ length: size }, (_, index) => low + index);
  const covered = numbers.every((number) => inside.some(({ from, to }) => from <= number && number <= to));
  const insideEntries = inside.map(({ entry }) => entry);
  return { facts: shared(around ? [...insideEntries, around] : insideEntries), whole: around !== undefined || covered };
}

function shared(entries: readonly (Partial<DatasetEntry> | Shared['facts'])[]): Shared['facts'] {
  const same = <T>(factOf: (entry: Partial<DatasetEntry> | Shared['facts']) => T) =>
    new Set(entries.map(factOf)).size === 1 ? entries.map(factOf)[0] : undefined;
  return {
    brand: same(({ brand }) => brand),
    prepaid: same(({ prepaid }) => prepaid),
    country: same(({ country }) => country),
  };
}
