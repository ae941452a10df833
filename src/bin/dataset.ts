/** Owns a data set in memory: ranges of BINs with their facts, packed into typed arrays, found by longest match. */
import { type Bin, parseBin } from './bin.ts';
import { countryByAlpha2 } from './country.ts';
import { createFactsWriter, createNumbers, type PackedFacts, readFacts } from './facts.ts';
import { networkOfBin, networkOfScheme } from './network.ts';
import { findSegment, flattenRanges, type Segments } from './ranges.ts';
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

/** How many entries there are of each network and of each country (alpha-2); of those without a network, under ''. */
export interface Coverage {
  schemes: Readonly<Record<string, number>>;
  countries: Readonly<Record<string, number>>;
}

/** A data set as numbers and texts: what is stored, and what is searched. */
export interface PackedDataset extends DatasetAbout {
  /** Number of entries. */
  size: number;
  coverage: Coverage;
  /** Most digits first; what a segment stands for is a row of facts. */
  tables: readonly ({ digits: number } & Segments)[];
  facts: PackedFacts;
}

export interface Dataset extends DatasetAbout {
  size: number;
  coverage: Coverage;
  /** The entry with the most digits that fits the BIN's beginning; of those the narrowest; of equals the last one added. */
  find(bin: Bin): DatasetHit | undefined;
  packed: PackedDataset;
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
  const schemes = new Map<string, number>();
  const countries = new Map<string, number>();
  let size = 0;
  return {
    add(entry) {
      const table = tables.get(entry.start.length);
      const fault = faultOf(entry);
      if (fault || !table) return fault ?? 'not_6_to_8_digits';
      const complete = withNetworkRules(entry);
      table.add(Number(entry.start), Number(entry.end), facts.add(complete));
      count(schemes, complete.scheme ?? '');
      count(countries, complete.country);
      size++;
      return undefined;
    },
    finish(about) {
      const segments = [...tables].map(([digits, table]) => ({ digits, ...table.finish() }));
      const coverage = { schemes: Object.fromEntries(schemes), countries: Object.fromEntries(countries) };
      return openDataset({ ...about, size, coverage, tables: segments, facts: facts.finish() });
    },
  };
}

export function openDataset(packed: PackedDataset): Dataset {
  const { source, asOf, licence, size, coverage } = packed;
  return { source, asOf, licence, size, coverage, packed, find: (bin) => findLongest(packed, bin) };
}

function findLongest({ tables, facts }: PackedDataset, bin: Bin): DatasetHit | undefined {
  for (const table of tables) {
    const { digits } = table;
    if (digits > bin.length) continue;
    const row = findSegment(table, Number(digits === bin.length ? bin : bin.slice(0, digits)));
    if (row >= 0) return { record: readFacts(facts, row), digitsMatched: digits };
  }
  return undefined;
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
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
  const number = entry.number ? { ...network.number, ...entry.number } : network.number;
  return { ...entry, scheme: network.scheme, ...(number && { number }) };
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
    finish: () => flattenRanges({ starts: starts.finish(), ends: ends.finish() }, rows.finish()),
  };
}
