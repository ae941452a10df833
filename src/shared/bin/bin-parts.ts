/** The parts of BINs of 8 digits that account ranges hold. Kept as numbers, because a file may divide two BINs with each row. */
import { NUMBERS_OF_BIN, type NumberRange } from './account-ranges.ts';
import { createNumbers } from './facts.ts';
import { distinct } from './ranges.ts';

/** The ranges that hold a part of a BIN, each with its row of facts. */
interface BinParts {
  bin: number;
  ranges: (NumberRange & { row: number })[];
}

export function createBinParts() {
  const bins = createNumbers();
  const rows = createNumbers();
  /** The first and the last number of the BIN that the range holds, without the digits of the BIN. */
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
    /** In the same order. */
    *divided(): Generator<BinParts> {
      const of = { bins: bins.finish(), rows: rows.finish(), firsts: firsts.finish(), lasts: lasts.finish() };
      let group: BinParts | undefined;
      for (const index of inOrder(of.bins)) {
        const bin = of.bins[index] ?? 0;
        if (group?.bin !== bin) {
          if (group) yield group;
          group = { bin, ranges: [] };
        }
        const start = bin * NUMBERS_OF_BIN;
        const range = { from: start + (of.firsts[index] ?? 0), to: start + (of.lasts[index] ?? 0) };
        group.ranges.push({ ...range, row: of.rows[index] ?? 0 });
      }
      if (group) yield group;
    },
  };
}

/** The places of the numbers in ascending order. Number and place are one value, so that the fast native sort applies. */
function inOrder(numbers: Uint32Array): Float64Array {
  const keys = Float64Array.from(numbers, (number, index) => number * 2 ** 22 + index);
  return keys.sort().map((key) => key % 2 ** 22);
}
