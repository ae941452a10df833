/** A data set in memory: BIN ranges with their facts, packed into typed arrays and searched by longest match. */
import { type PackedFacts, readFacts } from './facts.ts';
import type { Bin } from './parse-bin.ts';
import { findSegment, type Segments } from './ranges.ts';
import { type BinRecord, isEmptyRecord } from './record.ts';

export interface DatasetAbout {
  /** Name of a file, or of a package with its version. */
  source: string;
  /** Date of the facts, YYYY-MM-DD. */
  asOf: string;
  /** Licence note for pages. */
  licence: string;
}

export interface DatasetHit {
  /** Of a BIN that several ranges divide, only the facts that all of them share: these may lack a country. */
  record: BinRecord;
  /** How many digits of the BIN matched: one less than all if the ranges hold only a part of the BIN. */
  digitsMatched: number;
}

/** Number of entries for each network ('' for none) and each country (alpha-2). */
export interface Coverage {
  schemes: Readonly<Record<string, number>>;
  countries: Readonly<Record<string, number>>;
}

/**
 * For BINs of so many digits or more; `exact`: for BINs of exactly so many digits; `part`: for BINs of which the ranges
 * hold only a part.
 */
export interface Table extends Segments {
  digits: number;
  exact?: boolean;
  part?: boolean;
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

export function openDataset(packed: PackedDataset): Dataset {
  const { source, asOf, licence, size, coverage } = packed;
  return { source, asOf, licence, size, coverage, packed, find: (bin) => findLongest(packed, bin) };
}

function findLongest(packed: PackedDataset, bin: Bin): DatasetHit | undefined {
  const found = findRow(packed.tables, bin);
  if (!found) return undefined;
  const { digits, part } = found.table;
  const record = readFacts(packed.facts, found.row);
  // Empty if the ranges that divide the BIN share nothing.
  return isEmptyRecord(record) ? undefined : { record, digitsMatched: part ? digits - 1 : digits };
}

export function findRow(tables: readonly Table[], bin: string): { row: number; table: Table } | undefined {
  for (const table of tables) {
    const { digits, exact } = table;
    if (digits > bin.length || (exact && digits < bin.length)) continue;
    const row = findSegment(table, Number(digits === bin.length ? bin : bin.slice(0, digits)));
    if (row >= 0) return { row, table };
  }
  return undefined;
}
