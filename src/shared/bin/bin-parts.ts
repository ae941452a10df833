/** Collects the parts of 8-digit BINs that account ranges cover, in typed arrays: each row may divide two BINs. */
import { NUMBERS_OF_BIN, type NumberRange } from './account-ranges.ts';
import { createNumbers } from './facts.ts';
import { distinct } from './ranges.ts';

/** A BIN with the ranges that cover parts of it. `row`: the row of facts of a range. */
interface BinParts {
  bin: number;
  ranges: (NumberRange & { row: number })[];
}

export function createBinParts() {
  const bins = createNumbers();
  const rows = createNumbers();
  /** The first and the last number that the range covers in the BIN, without the digits of the BIN. */
  const [firsts, lasts] = [createNumbers(), createNumbers()];
  return {
    add(bin: number, { from, to }: NumberRange, row: number) {
      const start = bin * NUMBERS_OF_BIN;
      bins.push(bin);
      rows.push(row);
      firsts.push(Math.max(from - start, 0));
      lasts.push(Math.min(to - start, NUMBERS_OF_BIN - 1));
    },
    /** Returns each BIN once, in ascending order. */
    bins: (): Uint32Array => distinct(bins.finish()),
    /** Yields the divided BINs in ascending order. */
    *divided(): Generator<BinParts> {
      const columns = { bins: bins.finish(), rows: rows.finish(), firsts: firsts.finish(), lasts: lasts.finish() };
      let group: BinParts | undefined;
      for (const index of sortedIndexes(columns.bins)) {
        const bin = columns.bins[index] ?? 0;
        if (group?.bin !== bin) {
          if (group) yield group;
          group = { bin, ranges: [] };
        }
        const start = bin * NUMBERS_OF_BIN;
        const range = { from: start + (columns.firsts[index] ?? 0), to: start + (columns.lasts[index] ?? 0) };
        group.ranges.push({ ...range, row: columns.rows[index] ?? 0 });
      }
      if (group) yield group;
    },
  };
}

/** Returns indexes in the order of their numbers. Sorts number and index as one value, for the fast native sort. */
function sortedIndexes(numbers: Uint32Array): Float64Array {
  const keys = Float64Array.from(numbers, (number, index) => number * 2 ** 22 + index);
  return keys.sort().map((key) => key % 2 ** 22);
}
