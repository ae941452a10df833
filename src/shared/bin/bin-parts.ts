/** The parts of 8-digit BINs that account ranges cover, as numbers: each row of a file may divide two BINs. */
import { NUMBERS_OF_BIN, type NumberRange } from './account-ranges.ts';
import { createNumbers } from './facts.ts';
import { distinct } from './ranges.ts';

/** The ranges that cover a part of a BIN, each with its row of facts. */
interface BinParts {
  bin: number;
  ranges: (NumberRange & { row: number })[];
}

export function createBinParts() {
  const bins = createNumbers();
  const rows = createNumbers();
  /** The first and the last number of the BIN that the range covers, without the digits of the BIN. */
  const [firsts, lasts] = [createNumbers(), createNumbers()];
  return {
    add(bin: number, { from, to }: NumberRange, row: number) {
      const start = bin * NUMBERS_OF_BIN;
      bins.push(bin);
      rows.push(row);
      firsts.push(Math.max(from - start, 0));
      lasts.push(Math.min(to - start, NUMBERS_OF_BIN - 1));
    },
    /** Each BIN once, in ascending order. */
    bins: (): Uint32Array => distinct(bins.finish()),
    /** The divided BINs, in ascending order. */
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

/** The indexes of the numbers in ascending order. Sorts number and index as one value, for the fast native sort. */
function sortedIndexes(numbers: Uint32Array): Float64Array {
  const keys = Float64Array.from(numbers, (number, index) => number * 2 ** 22 + index);
  return keys.sort().map((key) => key % 2 ** 22);
}
