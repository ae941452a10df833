/** Builds a data set: checks and completes each entry, and finds the shared facts of ranges that divide a BIN. */
import {
  accountRangeOf,
  binsOfRange,
  coversBin,
  NUMBERS_OF_BIN,
  type NumberRange,
  sharedFacts,
} from './account-ranges.ts';
import { createBinParts } from './bin-parts.ts';
import { countryByAlpha2 } from './country.ts';
import { type Dataset, type DatasetAbout, findRow, openDataset, type Table } from './dataset.ts';
import { createFactsWriter, createNumbers, readFacts } from './facts.ts';
import { networkOfBin, networkOfScheme } from './network.ts';
import { digitsOfSpreadsheetNumber, parseBin } from './parse-bin.ts';
import { internationalPhone } from './phone.ts';
import { distinct, flattenRanges } from './ranges.ts';
import type { EntryFacts } from './record.ts';

/**
 * A range with its facts. `start` and `end` (inclusive) have the same length: 6 to 11 digits, or up to 19 digits
 * that are padded with 0 and 9.
 */
export interface DatasetEntry extends EntryFacts {
  start: string;
  end: string;
}

export type EntryFault =
  | 'not_6_to_11_digits'
  | 'leading_zeros_lost'
  | 'spreadsheet_number'
  | 'range_reversed'
  | 'country_missing'
  | 'country_unknown';

/** A BIN that entries divide, with their rows of facts. `whole`: the entries cover all of the BIN. */
interface DividedBin {
  bin: number;
  rows: ReadonlySet<number>;
  whole: boolean;
}

export interface DatasetBuilder {
  /**
   * Adds the entry. Returns the fault of a refused entry; otherwise undefined.
   * @throws RangeError with the code `TOO_LONG` if there are too many entries
   */
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

/**
 * Maximum number of entries, and of distinct texts in them. It keeps each table below the limit of `flattenRanges`, and
 * a thread within the memory that `checkUpload` allows. The largest known data set has half as many.
 */
export const MAX_ROWS = 750_000;
/** The `code` of the error for a larger data set. */
export const TOO_LONG = 'DATASET_TOO_LONG';

export const tooLong = () => Object.assign(new RangeError('The data set is too long.'), { code: TOO_LONG });

/** Creates a builder that accepts entries one by one, so that a file can be read as a stream. */
export function createDatasetBuilder(): DatasetBuilder {
  const tables = new Map([8, 7, 6].map((digits) => [digits, createTable()]));
  const parts = createBinParts();
  const facts = createFactsWriter();
  const schemes = new Map<string, number>();
  const countries = new Map<string, number>();
  let size = 0;
  let hasAccountRanges = false;

  const addAccountRange = (range: NumberRange, row: number) => {
    hasAccountRanges = true;
    const bins = binsOfRange(range, NUMBERS_OF_BIN);
    if (bins.whole) tables.get(8)?.add(...bins.whole, row);
    for (const bin of bins.parts) parts.add(bin, range, row);
  };

  /** Adds the ranges to the tables of shorter BINs that they cover completely. Returns the divided BINs by length. */
  const divideBins = (): Map<number, Uint32Array> => {
    const divided = new Map([[8, parts.bins()]]);
    for (const digits of [7, 6]) {
      const bins = createNumbers();
      for (const bin of divided.get(digits + 1) ?? []) bins.push(Math.floor(bin / 10));
      tables.get(digits + 1)?.forEach((from, to, row) => {
        const { whole, parts } = binsOfRange({ from, to }, 10);
        if (whole) tables.get(digits)?.add(...whole, row);
        for (const bin of parts) bins.push(bin);
      });
      divided.set(digits, distinct(bins.finish()));
    }
    return divided;
  };

  /** Yields the divided BINs of 8 digits. */
  function* longestDivided(tablesSoFar: readonly Table[]): Generator<DividedBin> {
    for (const { bin, ranges } of parts.divided()) {
      const widerRange = findRow(tablesSoFar, String(bin).padStart(8, '0'));
      const rows = new Set(ranges.map(({ row }) => row));
      if (widerRange) rows.add(widerRange.row);
      yield { bin, rows, whole: widerRange !== undefined || coversBin(bin, ranges) };
    }
  }

  /** Yields the divided BINs with `digits` digits, whose parts are BINs with one more digit. */
  function* shorterDivided(tablesSoFar: readonly Table[], digits: number, bins: Uint32Array): Generator<DividedBin> {
    for (const bin of bins) {
      const text = String(bin).padStart(digits, '0');
      const rowsOfParts = Array.from({ length: 10 }, (_, digit) => findRow(tablesSoFar, `${text}${digit}`));
      const matches = rowsOfParts.filter((match) => match !== undefined);
      const whole = matches.length === rowsOfParts.length && matches.every(({ table }) => !table.part);
      yield { bin, rows: new Set(matches.map(({ row }) => row)), whole };
    }
  }

  /** Returns the row of the facts that these rows share. Reads them one by one, because all rows may divide one BIN. */
  const sharedRow = (rows: ReadonlySet<number>): number => {
    let shared: EntryFacts | undefined;
    for (const row of rows) {
      if (rows.size === 1) return row;
      const record = readFacts(facts.written(), row);
      const entry = { ...record, country: record.country?.alpha2 ?? '' };
      shared = shared ? sharedFacts(shared, entry) : entry;
    }
    return facts.add(shared ?? { country: '' });
  };

  const sharedTables = (digits: number, divided: Iterable<DividedBin>): Table[] => {
    const wholes = createTable();
    const parts = createTable();
    for (const { bin, rows, whole } of divided) (whole ? wholes : parts).add(bin, bin, sharedRow(rows));
    const packed: Table[] = [
      { digits, exact: true, ...wholes.finish() },
      { digits, exact: true, part: true, ...parts.finish() },
    ];
    return packed.filter(({ starts }) => starts.length > 0);
  };

  return {
    add(entry) {
      const fault = faultOf(entry);
      if (fault) return fault;
      if (size === MAX_ROWS || facts.texts > MAX_ROWS) throw tooLong();
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
      let tablesSoFar: Table[] = [...tables].map(([digits, table]) => ({ digits, ...table.finish() }));
      // Longest first, because shorter BINs take their facts from longer ones.
      for (const [digits, bins] of divided) {
        const dividedBins = digits === 8 ? longestDivided(tablesSoFar) : shorterDivided(tablesSoFar, digits, bins);
        tablesSoFar = [...sharedTables(digits, dividedBins), ...tablesSoFar];
      }
      return openDataset({ ...about, size, coverage, tables: tablesSoFar, facts: facts.finish() });
    },
  };
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function faultOf(entry: DatasetEntry): EntryFault | undefined {
  const { start, end } = entry;
  const isBin = parseBin(start).bin && parseBin(end).bin && start.length === end.length;
  if (!isBin && !accountRangeOf(entry)) return faultOfLimits([start, end]);
  if (start > end) return 'range_reversed';
  if (!entry.country) return 'country_missing';
  return countryByAlpha2(entry.country) ? undefined : 'country_unknown';
}

function faultOfLimits(limits: readonly string[]): EntryFault {
  if (limits.some((limit) => digitsOfSpreadsheetNumber(limit) !== undefined)) return 'spreadsheet_number';
  return limits.some((limit) => /^\d{1,5}$/.test(limit)) ? 'leading_zeros_lost' : 'not_6_to_11_digits';
}

/** Completes the entry by the rules of its network: number length, Luhn check, and the network if it is missing. */
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
