/** Builds a data set: checks and completes each entry, and finds the shared facts of entries with the same range. */
import { type BinRange, binRangeOf, sharedDigits, shorterRange } from './bin-range.ts';
import { countryByAlpha2 } from './country.ts';
import { type Dataset, type DatasetAbout, digitsOf, openDataset, ownerOf, rowOf, type Table } from './dataset.ts';
import { createFactsWriter, createNumbers, readFacts } from './facts.ts';
import { networkOfScheme } from './network.ts';
import { digitsOfSpreadsheetNumber } from './parse-bin.ts';
import { internationalPhone } from './phone.ts';
import { flattenRanges, type RangeList, repeatedRanges } from './ranges.ts';
import { type EntryFacts, factIn, recordOf } from './record.ts';

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
  | 'more_than_8_digits'
  | 'range_reversed'
  | 'country_missing'
  | 'country_unknown';

/** Ranges that come more than once, with different facts. They keep the facts that all of their rows share. */
export interface Conflicts {
  count: number;
  /** The first hundred of them, with at most ten lines each. */
  ranges: { lines: number[] }[];
}

export interface DatasetBuilder {
  /**
   * Adds the entry. Returns the fault of a refused entry; otherwise undefined.
   * @param line of the entry in its file, for `Conflicts`
   * @throws RangeError with the code `TOO_LONG` if there are too many entries
   */
  add(entry: DatasetEntry, line?: number): EntryFault | undefined;
  finish(about: DatasetAbout): { dataset: Dataset; conflicts: Conflicts };
}

/** @throws TypeError for an entry that `DatasetBuilder.add` refuses */
export function createDataset(parts: DatasetAbout & { entries: Iterable<DatasetEntry> }): Dataset {
  const { entries, ...about } = parts;
  const builder = createDatasetBuilder();
  for (const entry of entries) {
    const fault = builder.add(entry);
    if (fault) throw new TypeError(`The data set ${about.source} has an unusable entry: ${fault}.`);
  }
  return builder.finish(about).dataset;
}

/**
 * Maximum number of entries, and of distinct texts in them. It keeps each table below the limit of `flattenRanges`, and
 * a thread within the memory that `checkUpload` allows. The largest known data set has half as many.
 */
export const MAX_ROWS = 750_000;
const MAX_LISTED_CONFLICTS = 100;
const MAX_LINES_OF_CONFLICT = 10;
/** The `code` of the error for a larger data set. */
export const TOO_LONG = 'DATASET_TOO_LONG';

export const tooLong = () => Object.assign(new RangeError('The data set is too long.'), { code: TOO_LONG });

/** Creates a builder that accepts entries one by one, so that a file can be read as a stream. */
export function createDatasetBuilder(): DatasetBuilder {
  const tables = new Map([8, 7, 6].map((digits) => [digits, createTable()]));
  const facts = createFactsWriter();
  const schemes = new Map<string, number>();
  const countries = new Map<string, number>();
  const conflicts = createConflicts();
  let size = 0;

  /** Returns an owner with the facts that all of these have. Reads them one by one, because there may be many. */
  const sharedOwner = (owners: ReadonlySet<number>): number => {
    let shared: EntryFacts | undefined;
    let digits = 0;
    for (const owner of owners) {
      const record = readFacts(facts.written(), rowOf(owner));
      const entry = { ...record, country: record.country?.alpha2 ?? '' };
      shared = shared ? sharedFacts(shared, entry) : entry;
      digits = digitsOf(owner);
    }
    return ownerOf(facts.add(shared ?? { country: '' }), digits);
  };

  /** Gives rows of the same range the facts that all of them share. */
  const settleConflicts = ({ owners, lines, ...ranges }: RowTable): void => {
    for (const positions of repeatedRanges(ranges)) {
      const different = new Set(positions.map((position) => owners[position] ?? 0));
      if (different.size === 1) continue;
      const shared = sharedOwner(different);
      for (const position of positions) owners[position] = shared;
      conflicts.add(positions.map((position) => lines[position] ?? 0));
    }
  };

  return {
    add(entry, line = 0) {
      const range = binRangeOf(entry);
      const fault = faultOf(entry, range);
      if (fault || !range) return fault;
      if (size === MAX_ROWS || facts.texts > MAX_ROWS) throw tooLong();
      const complete = withInternationalPhone(withNetworkRules(entry));
      const owner = ownerOf(facts.add(complete), sharedDigits(range));
      tables.get(range.digits)?.add(range, owner, line);
      count(schemes, complete.scheme ?? '');
      count(countries, complete.country);
      size++;
      return undefined;
    },
    finish(about) {
      const coverage = { schemes: Object.fromEntries(schemes), countries: Object.fromEntries(countries) };
      const searched: Table[] = [];
      for (const [digits, table] of tables) {
        const rows = table.finish();
        settleConflicts(rows);
        searched.push({ digits, ...flattenRanges(rows, rows.owners) });
        for (const shorter of tables.keys())
          if (shorter < digits) searched.push(...shorterTable(rows, digits, shorter));
      }
      const dataset = openDataset({ ...about, size, coverage, tables: searched, facts: facts.finish() });
      return { dataset, conflicts: conflicts.finish() };
    },
  };
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function faultOf(entry: DatasetEntry, range: BinRange | undefined): EntryFault | undefined {
  const { start, end, country } = entry;
  if (!range) return faultOfLimits([start, end]);
  if (start > end) return 'range_reversed';
  if (range.from > range.to) return 'more_than_8_digits';
  if (!country) return 'country_missing';
  return countryByAlpha2(country) ? undefined : 'country_unknown';
}

function faultOfLimits(limits: readonly string[]): EntryFault {
  if (limits.some((limit) => digitsOfSpreadsheetNumber(limit) !== undefined)) return 'spreadsheet_number';
  return limits.some((limit) => /^\d{1,5}$/.test(limit)) ? 'leading_zeros_lost' : 'not_6_to_11_digits';
}

/** Completes the entry by the rules of the network that it names: number length and Luhn check. */
function withNetworkRules(entry: DatasetEntry): DatasetEntry {
  if (!entry.scheme) return entry;
  const network = networkOfScheme(entry.scheme);
  const number = entry.number ? { ...network.number, ...entry.number } : network.number;
  return number ? { ...entry, number } : entry;
}

function withInternationalPhone(entry: DatasetEntry): DatasetEntry {
  const { phone, ...bank } = entry.bank ?? {};
  if (phone === undefined) return entry;
  const international = internationalPhone(phone, entry.country);
  return { ...entry, bank: international === undefined ? bank : { ...bank, phone: international } };
}

/** Returns the facts that both entries have. `country` is empty if the entries name different countries. */
function sharedFacts(a: EntryFacts, b: EntryFacts): EntryFacts {
  const facts = recordOf((field) => {
    const fact = factIn(a, field);
    return fact === factIn(b, field) ? fact : undefined;
  });
  return { ...facts, country: a.country === b.country ? a.country : '' };
}

/** The rows with limits of one length. */
interface RowTable extends RangeList {
  owners: Uint32Array;
  /** The line of each row in its file. */
  lines: Uint32Array;
}

function createTable() {
  const [starts, ends, owners, lines] = [createNumbers(), createNumbers(), createNumbers(), createNumbers()];
  return {
    add({ from, to }: BinRange, owner: number, line: number) {
      starts.push(from);
      ends.push(to);
      owners.push(owner);
      lines.push(line);
    },
    finish: (): RowTable => ({
      starts: starts.finish(),
      ends: ends.finish(),
      owners: owners.finish(),
      lines: lines.finish(),
    }),
  };
}

/** Returns the table for BINs that are shorter than the limits of the rows, if rows cover such a BIN completely. */
function shorterTable(rows: RowTable, digits: number, shorter: number): Table[] {
  const [starts, ends, widths, owners] = [createNumbers(), createNumbers(), createNumbers(), createNumbers()];
  for (let position = 0; position < rows.starts.length; position++) {
    const [from, to] = [rows.starts[position] ?? 0, rows.ends[position] ?? 0];
    const range = shorterRange({ digits, from, to }, shorter);
    if (!range) continue;
    starts.push(range.from);
    ends.push(range.to);
    widths.push(to - from);
    owners.push(rows.owners[position] ?? 0);
  }
  const ranges = { starts: starts.finish(), ends: ends.finish(), widths: widths.finish() };
  if (ranges.starts.length === 0) return [];
  return [{ digits: shorter, exact: true, ...flattenRanges(ranges, owners.finish()) }];
}

function createConflicts() {
  const ranges: Conflicts['ranges'] = [];
  let total = 0;
  return {
    add(lines: number[]) {
      total++;
      if (ranges.length < MAX_LISTED_CONFLICTS) ranges.push({ lines: lines.slice(0, MAX_LINES_OF_CONFLICT) });
    },
    finish: (): Conflicts => ({ count: total, ranges }),
  };
}
