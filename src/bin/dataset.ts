/** Owns a data set in memory: ranges of BINs with their facts, packed into typed arrays, found by longest match. */
import { type Bin, parseBin } from './bin.ts';
import { countryByAlpha2 } from './country.ts';
import { createFactsWriter, createNumbers } from './facts.ts';
import { networkOfBin, networkOfScheme } from './network.ts';
import { createRangeIndex, type RangeIndex } from './ranges.ts';
import type { BankFacts, BinRecord } from './record.ts';

/** One range with its facts. `start` and `end` (inclusive) have the same length, 6 to 8 digits. */
export interface DatasetEntry {
  start: string;
  end: string;
  /** ISO 3166-1 alpha-2, upper case. */
  country: string;
  scheme?: string;
  type?: string;
  brand?: string;
  prepaid?: boolean;
  number?: { length?: number; luhn?: boolean };
  bank?: BankFacts;
}

export interface DatasetAbout {
  /** Where it comes from: a file's name, or a package with its version. */
  source: string;
  /** Date of the facts, YYYY-MM-DD. */
  asOf: string;
  /** Licence note for pages. */
  licence: string;
}

export interface DatasetHit {
  record: BinRecord;
  digitsMatched: number;
}

export interface Dataset extends DatasetAbout {
  /** Number of entries. */
  size: number;
  /** The entry with the most digits that fits the BIN's beginning; of those the narrowest; of equals the last one added. */
  find(bin: Bin): DatasetHit | undefined;
}

export type EntryFault = 'not_6_to_8_digits' | 'range_reversed' | 'country_missing' | 'country_unknown';

export interface DatasetBuilder {
  /** Answers what is wrong with an entry that was not taken. */
  add(entry: DatasetEntry): EntryFault | undefined;
  finish(about: DatasetAbout): Dataset;
}

/** @throws TypeError for an entry that `DatasetBuilder.add` refuses */
export function createDataset(parts: DatasetAbout & { entries: Iterable<DatasetEntry> }): Dataset {
  const { entries, ...about } = parts;
  const builder = createDatasetBuilder();
  for (const entry of entries) {
    const fault = builder.add(entry);
    if (fault) throw new TypeError(`An entry of the data set ${about.source} cannot be used: ${fault}.`);
  }
  return builder.finish(about);
}

/** Takes entries one by one, so that a file of any length can be read as a stream. */
export function createDatasetBuilder(): DatasetBuilder {
  const tables = new Map([8, 7, 6].map((digits) => [digits, createTable()]));
  const facts = createFactsWriter();
  let size = 0;
  return {
    add(entry) {
      const table = tables.get(entry.start.length);
      const fault = faultOf(entry);
      if (fault || !table) return fault ?? 'not_6_to_8_digits';
      table.add(Number(entry.start), Number(entry.end), facts.add(withNetworkRules(entry)));
      size++;
      return undefined;
    },
    finish(about) {
      const indexes = [...tables].map(([digits, table]) => ({ digits, ...table.finish() }));
      const read = facts.finish();
      return { ...about, size, find: (bin) => findLongest(indexes, read, bin) };
    },
  };
}

function findLongest(tables: readonly FinishedTable[], read: (row: number) => BinRecord, bin: Bin) {
  for (const { digits, index, rows } of tables) {
    if (digits > bin.length) continue;
    const position = index.find(Number(digits === bin.length ? bin : bin.slice(0, digits)));
    const row = position < 0 ? undefined : rows[position];
    if (row !== undefined) return { record: read(row), digitsMatched: digits };
  }
  return undefined;
}

function faultOf(entry: DatasetEntry): EntryFault | undefined {
  const { start, end } = entry;
  if (parseBin(start).problem || parseBin(end).problem || start.length !== end.length) return 'not_6_to_8_digits';
  if (start > end) return 'range_reversed';
  if (!entry.country) return 'country_missing';
  return countryByAlpha2(entry.country) ? undefined : 'country_unknown';
}

/** The network's own rules fill in what the entry does not say about the number, and the network where it names none. */
function withNetworkRules(entry: DatasetEntry): DatasetEntry {
  const network = entry.scheme ? networkOfScheme(entry.scheme) : networkOfBin(entry.start);
  if (!network) return entry;
  return { ...entry, scheme: network.scheme, number: { ...network.number, ...entry.number } };
}

interface FinishedTable {
  digits: number;
  index: RangeIndex;
  /** Row of facts of each range. */
  rows: Uint32Array;
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
    finish: () => ({
      index: createRangeIndex({ starts: starts.finish(), ends: ends.finish() }),
      rows: rows.finish(),
    }),
  };
}
