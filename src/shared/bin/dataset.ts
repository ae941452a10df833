/** A data set in memory: BIN ranges with their facts, packed into typed arrays. The longest match is found first. */
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
  /** If several ranges divide the BIN: only the facts that they share, which may lack a country. */
  record: BinRecord;
  /** How many digits of the BIN matched: one less than all if the ranges cover only a part of the BIN. */
  digitsMatched: number;
}

/** Number of entries for each network ('' for none) and each country (alpha-2). */
export interface Coverage {
  schemes: Readonly<Record<string, number>>;
  countries: Readonly<Record<string, number>>;
}

/**
 * The segments for BINs with at least `digits` digits. `exact`: only for BINs with exactly that many. `part`: the
 * ranges cover only a part of each BIN.
 */
export interface Table extends Segments {
  digits: number;
  exact?: boolean;
  part?: boolean;
}

/** The form in which a data set is stored and searched. */
export interface PackedDataset extends DatasetAbout {
  /** Number of entries. */
  size: number;
  coverage: Coverage;
  /** The tables in search order. The owner of a segment is a row of `facts`. */
  tables: readonly Table[];
  facts: PackedFacts;
}

export interface Dataset extends DatasetAbout {
  size: number;
  coverage: Coverage;
  /** Finds the matching entry with the most digits, then the narrowest range, then the latest addition. */
  find(bin: Bin): DatasetHit | undefined;
  packed: PackedDataset;
}

export function openDataset(packed: PackedDataset): Dataset {
  const { source, asOf, licence, size, coverage } = packed;
  return { source, asOf, licence, size, coverage, packed, find: (bin) => findLongest(packed, bin) };
}

function findLongest(packed: PackedDataset, bin: Bin): DatasetHit | undefined {
  const match = findRow(packed.tables, bin);
  if (!match) return undefined;
  const { digits, part } = match.table;
  const record = readFacts(packed.facts, match.row);
  // The record is empty if the ranges that divide the BIN share no fact.
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
