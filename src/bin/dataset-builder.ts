/** Builds a data set from its entries: checks and completes each, and divides BINs that several ranges share. */
import {
  accountRangeOf,
  binsOfRange,
  coverBin,
  NUMBERS_OF_BIN,
  type NumberRange,
  sharedFacts,
} from './account-ranges.ts';
import { countryByAlpha2 } from './country.ts';
import { type Dataset, type DatasetAbout, findRow, openDataset, type PackedDataset, type Table } from './dataset.ts';
import { createFactsWriter, createNumbers, readFacts } from './facts.ts';
import { networkOfBin, networkOfScheme } from './network.ts';
import { parseBin } from './parse-bin.ts';
import { internationalPhone } from './phone.ts';
import { flattenRanges } from './ranges.ts';
import type { EntryFacts } from './record.ts';

/**
 * A range with its facts. `start` and `end` (inclusive) have the same length: 6 to 11 digits, or up to 19 where 0 and 9
 * fill them up.
 */
export interface DatasetEntry extends EntryFacts {
  start: string;
  end: string;
}

export type EntryFault = 'not_6_to_11_digits' | 'range_reversed' | 'country_missing' | 'country_unknown';

export interface DatasetBuilder {
  /** Returns why the entry was refused, or undefined. */
  add(entry: DatasetEntry): EntryFault | undefined;
  finish(about: DatasetAbout): Dataset;
}

/** @throws TypeError for an entry that `DatasetBuilder.add` refuses */
export function createDataset(parts: DatasetAbout & { entries: Iterable<DatasetEntry> }): Dataset {
  const { entries, ...about } = parts;
  const builder = createDatasetBuilder();
  for (const entry of entries) {
    const fault = builder.add(entry);
    if (fault) throw new TypeError(`The data set ${about.source} has an unusable entry: ${fault}.`);
  }
  return builder.finish(about);
}

/** Adds entries one by one, so that a file of any length can be streamed. */
export function createDatasetBuilder(): DatasetBuilder {
  const tables = new Map([8, 7, 6].map((digits) => [digits, createTable()]));
  /** The account ranges that divide a BIN of 8 digits. */
  const dividing = new Map<number, (NumberRange & { row: number })[]>();
  const facts = createFactsWriter();
  const schemes = new Map<string, number>();
  const countries = new Map<string, number>();
  let size = 0;
  let hasAccountRanges = false;

  const addAccountRange = (range: NumberRange, row: number) => {
    hasAccountRanges = true;
    const bins = binsOfRange(range, NUMBERS_OF_BIN);
    if (bins.whole) tables.get(8)?.add(...bins.whole, row);
    for (const bin of bins.parts) {
      const ranges = dividing.get(bin);
      if (ranges) ranges.push({ ...range, row });
      else dividing.set(bin, [{ ...range, row }]);
    }
  };

  /** Gives each shorter BIN to the ranges that hold it completely. Returns the BINs of so many digits that are divided. */
  const divideBins = (): Map<number, Set<number>> => {
    const divided = new Map([[8, new Set(dividing.keys())]]);
    for (const digits of [7, 6]) {
      const bins = new Set([...(divided.get(digits + 1) ?? [])].map((bin) => Math.floor(bin / 10)));
      tables.get(digits + 1)?.forEach((from, to, row) => {
        const { whole, parts } = binsOfRange({ from, to }, 10);
        if (whole) tables.get(digits)?.add(...whole, row);
        for (const bin of parts) bins.add(bin);
      });
      divided.set(digits, bins);
    }
    return divided;
  };

  /** The rows of a divided BIN; `whole`: they hold all of it. */
  const rowsOf = (bin: number, digits: number, packed: PackedDataset): { rows: Set<number>; whole: boolean } => {
    const text = String(bin).padStart(digits, '0');
    if (digits === 8) {
      const around = findRow(packed, text);
      const ranges = dividing.get(bin) ?? [];
      const rows = new Set(ranges.map(({ row }) => row));
      return { rows: around ? rows.add(around.row) : rows, whole: around !== undefined || coverBin(bin, ranges) };
    }
    const longer = Array.from({ length: 10 }, (_, digit) => findRow(packed, `${text}${digit}`));
    const found = longer.filter((one) => one !== undefined);
    const whole = found.length === longer.length && found.every(({ table }) => !table.part);
    return { rows: new Set(found.map(({ row }) => row)), whole };
  };

  /** For divided BINs: the facts that their rows share. */
  const sharedTables = (packed: PackedDataset, digits: number, bins: Iterable<number>): Table[] => {
    const wholes = createTable();
    const parts = createTable();
    for (const bin of bins) {
      const { rows, whole } = rowsOf(bin, digits, packed);
      const records = Array.from(rows, (row) => readFacts(packed.facts, row));
      const entries = records.map((record) => ({ ...record, country: record.country?.alpha2 ?? '' }));
      (whole ? wholes : parts).add(bin, bin, facts.add(sharedFacts(entries)));
    }
    return [
      { digits, exact: true, ...wholes.finish() },
      { digits, exact: true, part: true, ...parts.finish() },
    ];
  };

  return {
    add(entry) {
      const fault = faultOf(entry);
      if (fault) return fault;
      const complete = withInternationalPhone(withNetworkRules(entry));
      const row = facts.add(complete);
      const range = accountRangeOf(complete);
      if (range) addAccountRange(range, row);
      else tables.get(entry.start.length)?.add(Number(entry.start), Number(entry.end), row);
      count(schemes, complete.scheme ?? '');
      count(countries, complete.country);
      size++;
      return undefined;
    },
    finish(about) {
      const coverage = { schemes: Object.fromEntries(schemes), countries: Object.fromEntries(countries) };
      const divided = hasAccountRanges ? divideBins() : [];
      const whole = [...tables].map(([digits, table]) => ({ digits, ...table.finish() }));
      const pack = (all: Table[]) => ({ ...about, size, coverage, tables: all, facts: facts.finish() });
      let packed: PackedDataset = pack(whole);
      // The longest first, because shorter BINs share what the longer ones share.
      for (const [digits, bins] of divided) {
        const shared = sharedTables(packed, digits, bins).filter(({ starts }) => starts.length > 0);
        packed = pack([...shared, ...packed.tables]);
      }
      return openDataset(packed);
    },
  };
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function faultOf(entry: DatasetEntry): EntryFault | undefined {
  const { start, end } = entry;
  const isBin = parseBin(start).bin && parseBin(end).bin && start.length === end.length;
  if (!isBin && !accountRangeOf(entry)) return 'not_6_to_11_digits';
  if (start > end) return 'range_reversed';
  if (!entry.country) return 'country_missing';
  return countryByAlpha2(entry.country) ? undefined : 'country_unknown';
}

/** Completes the entry from the network's rules: length and Luhn check, and the network itself if it names none. */
function withNetworkRules(entry: DatasetEntry): DatasetEntry {
  const network = entry.scheme ? networkOfScheme(entry.scheme) : networkOfBin(entry.start);
  if (!network) return entry;
  const number = entry.number ? { ...network.number, ...entry.number } : network.number;
  return { ...entry, scheme: network.scheme, ...(number && { number }) };
}

function withInternationalPhone(entry: DatasetEntry): DatasetEntry {
  const { phone, ...bank } = entry.bank ?? {};
  if (phone === undefined) return entry;
  const international = internationalPhone(phone, entry.country);
  return { ...entry, bank: international === undefined ? bank : { ...bank, phone: international } };
}

function createTable() {
  const starts = createNumbers();
  const ends = createNumbers();
  const rows = createNumbers();
  return {
    add(start: number, end: number, row: number) {
      starts.push(start);
      ends.push(end);
      rows.push(row);
    },
    forEach(visit: (start: number, end: number, row: number) => void) {
      const [from, to] = [starts.finish(), ends.finish()];
      for (const [index, row] of rows.finish().entries()) visit(from[index] ?? 0, to[index] ?? 0, row);
    },
    finish: () => flattenRanges({ starts: starts.finish(), ends: ends.finish() }, rows.finish()),
  };
}
