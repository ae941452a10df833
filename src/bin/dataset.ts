/** A data set in memory: BIN ranges with their facts, packed into typed arrays and searched by longest match. */
import { countryByAlpha2 } from './country.ts';
import { createFactsWriter, createNumbers, type PackedFacts, readFacts } from './facts.ts';
import { networkOfBin, networkOfScheme } from './network.ts';
import { type Bin, parseBin } from './parse-bin.ts';
import { internationalPhone } from './phone.ts';
import { findSegment, flattenRanges, type Segments } from './ranges.ts';
import type { BankFacts, BinRecord } from './record.ts';

/** A range with its facts. `start` and `end` (inclusive) have the same length, 6 to 8 digits. */
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
  /** Name of a file, or of a package with its version. */
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

/** Number of entries for each network ('' for none) and each country (alpha-2). */
export interface Coverage {
  schemes: Readonly<Record<string, number>>;
  countries: Readonly<Record<string, number>>;
}

/** The form of a data set that is stored and searched. */
export interface PackedDataset extends DatasetAbout {
  /** Number of entries. */
  size: number;
  coverage: Coverage;
  /** Most digits first. The owner of a segment is a row of `facts`. */
  tables: readonly ({ digits: number } & Segments)[];
  facts: PackedFacts;
}

export interface Dataset extends DatasetAbout {
  size: number;
  coverage: Coverage;
  /** The matching entry with the most digits; of several the narrowest; of equally narrow ones the last added. */
  find(bin: Bin): DatasetHit | undefined;
  packed: PackedDataset;
}

export type EntryFault = 'not_6_to_8_digits' | 'range_reversed' | 'country_missing' | 'country_unknown';

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
  const facts = createFactsWriter();
  const schemes = new Map<string, number>();
  const countries = new Map<string, number>();
  let size = 0;
  return {
    add(entry) {
      const table = tables.get(entry.start.length);
      const fault = faultOf(entry);
      if (fault || !table) return fault ?? 'not_6_to_8_digits';
      const complete = withInternationalPhone(withNetworkRules(entry));
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
    finish: () => flattenRanges({ starts: starts.finish(), ends: ends.finish() }, rows.finish()),
  };
}
