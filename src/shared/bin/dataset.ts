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
  /** If several rows have the same range: only the facts that they share, which may lack a country. */
  record: BinRecord;
  /** How many leading digits all BINs of the range have in common. */
  digitsMatched: number;
}

/** Number of entries for each network ('' for none) and each country (alpha-2). */
export interface Coverage {
  schemes: Readonly<Record<string, number>>;
  countries: Readonly<Record<string, number>>;
}

/**
 * The segments for BINs with at least `digits` digits. `exact`: only for BINs with exactly that many, which ranges with
 * longer limits cover completely.
 */
export interface Table extends Segments {
  digits: number;
  exact?: boolean;
}

/** The form in which a data set is stored and searched. */
export interface PackedDataset extends DatasetAbout {
  /** Number of entries. */
  size: number;
  coverage: Coverage;
  /** The tables in search order. The owner of a segment is made by `ownerOf`. */
  tables: readonly Table[];
  facts: PackedFacts;
}

export interface Dataset extends DatasetAbout {
  size: number;
  coverage: Coverage;
  /** Finds, among the ranges that contain all of the BIN, the one with the longest limits, then the narrowest. */
  find(bin: Bin): DatasetHit | undefined;
  packed: PackedDataset;
}

export function openDataset(packed: PackedDataset): Dataset {
  const { source, asOf, licence, size, coverage } = packed;
  return { source, asOf, licence, size, coverage, packed, find: (bin) => findLongest(packed, bin) };
}

function findLongest({ tables, facts }: PackedDataset, bin: Bin): DatasetHit | undefined {
  for (const table of tables) {
    const { digits, exact } = table;
    if (digits > bin.length || (exact && digits < bin.length)) continue;
    const owner = findSegment(table, Number(digits === bin.length ? bin : bin.slice(0, digits)));
    if (owner < 0) continue;
    const record = readFacts(facts, rowOf(owner));
    // The record is empty if the rows of the range share no fact.
    return isEmptyRecord(record) ? undefined : { record, digitsMatched: digitsOf(owner) };
  }
  return undefined;
}

/** More than the digits of a BIN. */
const OWNER_DIGITS = 10;

/** Returns a row of facts, and how many leading digits the limits of its range share, as one number. */
export const ownerOf = (row: number, sharedDigits: number): number => row * OWNER_DIGITS + sharedDigits;

export const rowOf = (owner: number): number => Math.floor(owner / OWNER_DIGITS);

export const digitsOf = (owner: number): number => owner % OWNER_DIGITS;
