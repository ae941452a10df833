/** A data set in memory: BIN ranges with their facts, packed into typed arrays and searched by longest match. */
import { type AccountRange, accountRangeOf, binsOfRange, sharedFacts } from './account-ranges.ts';
import { countryByAlpha2 } from './country.ts';
import { createFactsWriter, createNumbers, type PackedFacts, readFacts } from './facts.ts';
import { networkOfBin, networkOfScheme } from './network.ts';
import { type Bin, parseBin } from './parse-bin.ts';
import { internationalPhone } from './phone.ts';
import { findSegment, flattenRanges, type Segments } from './ranges.ts';
import type { BankFacts, BinRecord } from './record.ts';

export interface EntryFacts {
  /** ISO 3166-1 alpha-2, upper case; empty if ranges of several countries share the other facts. */
  country: string;
  scheme?: string;
  type?: string;
  brand?: string;
  prepaid?: boolean;
  number?: { length?: number; luhn?: boolean };
  bank?: BankFacts;
}

/**
 * A range with its facts. `start` and `end` (inclusive) have the same length: 6 to 11 digits, or up to 19 where 0 and 9
 * fill them up.
 */
export interface DatasetEntry extends EntryFacts {
  start: string;
  end: string;
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
  /** Of a BIN that several ranges divide, only the facts that all of them share. */
  record: BinRecord;
  digitsMatched: number;
}

/** Number of entries for each network ('' for none) and each country (alpha-2). */
export interface Coverage {
  schemes: Readonly<Record<string, number>>;
  countries: Readonly<Record<string, number>>;
}

/** For BINs of so many digits or more; `exact`: for BINs of exactly so many digits. */
export interface Table extends Segments {
  digits: number;
  exact?: boolean;
}

/** The form of a data set that is stored and searched. */
export interface PackedDataset extends DatasetAbout {
  /** Number of entries. */
  size: number;
  coverage: Coverage;
  /** In the order of search. The owner of a segment is a row of `facts`. */
  tables: readonly Table[];
  facts: PackedFacts;
}

export interface Dataset extends DatasetAbout {
  size: number;
  coverage: Coverage;
  /** The matching entry with the most digits; of several the narrowest; of equally narrow ones the last added. */
  find(bin: Bin): DatasetHit | undefined;
  packed: PackedDataset;
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
  const parts = new Map([...tables.keys()].map((digits) => [digits, new Map<number, DatasetEntry[]>()]));
  const facts = createFactsWriter();
  const schemes = new Map<string, number>();
  const countries = new Map<string, number>();
  let size = 0;

  const addAccountRange = (range: AccountRange, row: number) => {
    for (const [digits, table] of tables) {
      const bins = binsOfRange(range, digits);
      if (bins.whole) table.add(...bins.whole, row);
      const inParts = parts.get(digits);
      for (const bin of bins.parts) {
        const entries = inParts?.get(bin);
        if (entries) entries.push(range.entry);
        else inParts?.set(bin, [range.entry]);
      }
    }
  };

  /** For BINs of which ranges hold a part: what these share with the range that holds all of the BIN, if there is one. */
  const sharedTables = (dataset: Dataset): Table[] =>
    [...parts].flatMap(([digits, bins]) => {
      const table = createTable();
      for (const [bin, entries] of bins) {
        const { record } = dataset.find(String(bin).padStart(digits, '0') as Bin) ?? {};
        const around = record ? [{ ...record, country: record.country?.alpha2 ?? '' }] : [];
        table.add(bin, bin, facts.add(sharedFacts([...entries, ...around])));
      }
      return bins.size === 0 ? [] : [{ digits, exact: true, ...table.finish() }];
    });

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
      const whole = [...tables].map(([digits, table]) => ({ digits, ...table.finish() }));
      const open = (all: Table[]) => openDataset({ ...about, size, coverage, tables: all, facts: facts.finish() });
      const dataset = open(whole);
      const shared = sharedTables(dataset);
      return shared.length === 0 ? dataset : open([...shared, ...whole]);
    },
  };
}

export function openDataset(packed: PackedDataset): Dataset {
  const { source, asOf, licence, size, coverage } = packed;
  return { source, asOf, licence, size, coverage, packed, find: (bin) => findLongest(packed, bin) };
}

function findLongest({ tables, facts }: PackedDataset, bin: Bin): DatasetHit | undefined {
  for (const table of tables) {
    const { digits, exact } = table;
    if (digits > bin.length || (exact && digits < bin.length)) continue;
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
    finish: () => flattenRanges({ starts: starts.finish(), ends: ends.finish() }, rows.finish()),
  };
}
