/** A plain reference for data sets: reads every entry for every number. */
import type { DatasetEntry } from '../../src/shared/bin/dataset-builder.ts';

/** Most digits first, then the narrowest range, then the last one listed. */
export function findPlainly(entries: readonly DatasetEntry[], digits: string): DatasetEntry | undefined {
  let best: DatasetEntry | undefined;
  for (const entry of entries) {
    const head = digits.slice(0, entry.start.length);
    const fits = head.length === entry.start.length && entry.start <= head && head <= entry.end;
    if (fits && (!best || !isBetter(best, entry))) best = entry;
  }
  return best;
}

function isBetter(one: DatasetEntry, other: DatasetEntry): boolean {
  const more = one.start.length - other.start.length;
  return more > 0 || (more === 0 && width(one) < width(other));
}

function width(entry: DatasetEntry): number {
  return Number(entry.end) - Number(entry.start);
}

interface Shared {
  facts: { brand: string | undefined; prepaid: boolean | undefined; country: string | undefined };
  /** The ranges hold each number of the BIN. */
  whole: boolean;
}

/** For ranges of 8 digits and more: reads every entry for every BIN, and asks for a number in each of its pieces. */
export function sharePlainly(entries: readonly DatasetEntry[], digits: string): Shared | undefined {
  const [low, high] = [Number(digits.padEnd(11, '0')), Number(digits.padEnd(11, '9'))];
  const ranges = entries.map((entry) => {
    const [from, to] = [Number(entry.start.padEnd(11, '0')), Number(entry.end.padEnd(11, '9'))];
    return { entry, from, to, inside: from <= high && to >= low && (from > low || to < high) };
  });
  const inside = ranges.filter((range) => range.inside);
  const size = high - low + 1;
  // Of the ranges that hold all of the BIN, the one that holds the fewest BINs counts.
  const around = findPlainly(
    ranges.map(({ entry, from, to }) => {
      return { ...entry, start: String(Math.ceil(from / size)), end: String(Math.floor((to + 1) / size) - 1) };
    }),
    digits,
  );
  if (inside.length === 0) return around && { facts: shared([around]), whole: true };
  if (digits.length < 8) {
    const longer = Array.from('0123456789', (digit) => sharePlainly(entries, digits + digit));
    const known = longer.filter((one) => one !== undefined);
    return {
      facts: shared(known.map(({ facts }) => facts)),
      whole: longer.every((one) => one?.whole),
    };
  }
  const numbers = Array.from({ length: size }, (_, index) => low + index);
  const covered = numbers.every((number) => inside.some(({ from, to }) => from <= number && number <= to));
  const all = inside.map(({ entry }) => entry);
  return { facts: shared(around ? [...all, around] : all), whole: around !== undefined || covered };
}

function shared(all: readonly (Partial<DatasetEntry> | Shared['facts'])[]): Shared['facts'] {
  const same = <T>(of: (one: Partial<DatasetEntry> | Shared['facts']) => T) =>
    new Set(all.map(of)).size === 1 ? all.map(of)[0] : undefined;
  return {
    brand: same(({ brand }) => brand),
    prepaid: same(({ prepaid }) => prepaid),
    country: same(({ country }) => country),
  };
}
