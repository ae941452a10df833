/** A plain reference for data sets: reads every entry for every number. */
import type { DatasetEntry } from '../../src/bin/dataset.ts';

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
