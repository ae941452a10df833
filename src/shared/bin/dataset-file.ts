/** Reads a data set file (`BIN_DATASET_FILE`, `bin import`) as a stream: CSV, which may be gzipped. Counts bad rows. */

import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { parse } from 'csv-parse';
import { type CsvText, readHeader } from './csv-header.ts';
import { validLines } from './csv-lines.ts';
import { decodedText, UnusableFile } from './csv-text.ts';
import type { Dataset, DatasetAbout } from './dataset.ts';
import {
  type Conflicts,
  createDatasetBuilder,
  type DatasetEntry,
  MAX_ROWS,
  TOO_LONG,
  tooLong,
} from './dataset-builder.ts';
import { shapeOfHeader } from './dataset-rows.ts';
import { type HeaderOptions, headerProblem, repeatedColumnProblem } from './header-problem.ts';
import { createNotUnderstood, type NotUnderstood } from './not-understood.ts';
import { describeReason, type RowFault, type SkipReason } from './row-fault.ts';
import { namedValue } from './texts.ts';

export interface FileReport {
  /** Name of the shape that the header has. */
  shape: string;
  /** Accepted rows. */
  taken: number;
  /** Skipped rows. */
  skipped: number;
  /** The first hundred skipped rows. Their digits are not repeated. */
  faults: RowFault[];
  reasons: SkipReason[];
  conflicts: Conflicts;
  /** The cells of closed lists that are not understood, in rows that fit the header. */
  notUnderstood: NotUnderstood[];
}

export interface DatasetFile {
  dataset: Dataset;
  report: FileReport;
}

/** `problem`: one sentence for the operator that says what is wrong and what to do. */
export type DatasetFileResult =
  | (DatasetFile & { problem?: never })
  | { dataset?: never; report?: never; problem: string };

const MAX_FAULTS = 100;
/**
 * One digit less than the usual lengths of BINs, account ranges and padded account ranges. Rows of these lengths have
 * lost a zero if more rows have the usual length. 15 digits are usual at American Express.
 */
const ONE_DIGIT_SHORT: ReadonlySet<number> = new Set([7, 10, 18]);
/** Column names identify the format, not the licence under which the file was obtained. */
const NO_LICENCE = 'The file states no licence: see where you obtained it.';

interface Row {
  record: string[];
  info: { lines: number };
}

export interface FileOptions extends HeaderOptions {
  /** Defaults: the file's name, its date, and a note that it states no licence. */
  about?: Partial<DatasetAbout>;
  /** Called with the number of bytes that were read since the last call. */
  onBytes?: (count: number) => void;
  /** Called for every skipped row, including those beyond the report's hundred. */
  onFault?: (fault: RowFault) => void;
  /** Maximum size of the unpacked text. Default: no limit. */
  maxBytes?: number;
}

/**
 * Reads the whole file. The data set's date defaults to the file's modification date (UTC). Never rejects
 * because of the file's content.
 */
export async function readDatasetFile(path: string, options: FileOptions = {}): Promise<DatasetFileResult> {
  try {
    const { asOf } = await inspectFile(path);
    const about = { source: basename(path), asOf, ...options.about };
    return await readChunks(createReadStream(path), about, options);
  } catch (error) {
    return { problem: unreadable(path, error) };
  }
}

/** Reads a data set from a stream, like `readDatasetFile`. */
export async function readDatasetStream(
  chunks: AsyncIterable<Buffer>,
  about: Omit<DatasetAbout, 'licence'> & Partial<DatasetAbout>,
  options: Omit<FileOptions, 'about'> = {},
): Promise<DatasetFileResult> {
  try {
    return await readChunks(chunks, about, options);
  } catch (error) {
    return { problem: unreadable(about.source, error) };
  }
}

async function readChunks(
  chunks: AsyncIterable<Buffer>,
  about: Omit<DatasetAbout, 'licence'> & Partial<DatasetAbout>,
  options: FileOptions,
): Promise<DatasetFileResult> {
  const read = async (unzipped: AsyncIterable<Buffer>) => {
    const text = decodedText(unzipped, options.maxBytes);
    const csv = await readHeader(text, (header) => shapeOfHeader(header, options.columns) !== undefined);
    const reading = createReading(csv, options);
    const parser = parse({
      delimiter: csv.separator,
      info: true,
      record_delimiter: '\n',
      relax_column_count: true,
      relax_quotes: true,
      skip_empty_lines: true,
    });
    await pipeline(validLines(csv, reading.skip), parser, async (rows: AsyncIterable<Row>) => {
      for await (const { record, info } of rows) reading.row(record, info.lines);
    });
    return reading.finish(about);
  };
  const { isGzipped, bytes } = await sniffGzip(chunks, options.onBytes);
  return isGzipped ? pipeline(bytes, createGunzip(), read) : read(bytes);
}

/** Returns whether the file is gzipped, by its first two bytes, and all its bytes. */
async function sniffGzip(chunks: AsyncIterable<Buffer>, onBytes: FileOptions['onBytes'] = () => undefined) {
  const iterator = chunks[Symbol.asyncIterator]();
  let head = Buffer.alloc(0);
  while (head.length < GZIP_MAGIC.length) {
    const { value, done } = await iterator.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  async function* bytes() {
    onBytes(head.length);
    yield head;
    for await (const chunk of { [Symbol.asyncIterator]: () => iterator }) {
      onBytes(chunk.length);
      yield chunk;
    }
  }
  return { isGzipped: isGzip(head), bytes: bytes() };
}

const GZIP_MAGIC = Buffer.from([0x1f, 0x8b]);

const isGzip = (bytes: Buffer) => bytes.subarray(0, GZIP_MAGIC.length).equals(GZIP_MAGIC);

/** Returns whether the file is gzipped, and its modification date (UTC). Rejects as `open` does. */
export async function inspectFile(path: string): Promise<{ isGzipped: boolean; asOf: string }> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(GZIP_MAGIC.length), 0, GZIP_MAGIC.length, 0);
    const { mtime } = await file.stat();
    return { isGzipped: isGzip(buffer), asOf: mtime.toISOString().slice(0, 10) };
  } finally {
    await file.close();
  }
}

function createReading(csv: CsvText, options: FileOptions) {
  const { columns, onFault } = options;
  const builder = createDatasetBuilder();
  const faults: RowFault[] = [];
  /** By reason: how many rows, and the first of them. */
  const reasons = new Map<string, SkipReason>();
  /** Rows that may have lost a zero. Whether they have is known when the lengths of all rows are. */
  const postponed: { entry: DatasetEntry; line: number }[] = [];
  /** The number of rows by the digits of their first limit. */
  const lengths: number[] = [];
  const shape = shapeOfHeader(csv.header, columns);
  const notUnderstood = createNotUnderstood();
  let taken = 0;
  let skipped = 0;

  const skip = (line: number, reason: RowFault['reason'], value?: string) => {
    const fault = { line, reason, ...(value !== undefined && { value }) };
    skipped++;
    if (faults.length < MAX_FAULTS) faults.push(fault);
    const { count, first } = reasons.get(reason) ?? { count: 0, first: fault };
    reasons.set(reason, { count: count + 1, first: line < first.line ? fault : first });
    onFault?.(fault);
  };
  const add = (entry: DatasetEntry, line: number) => {
    const fault = builder.add(entry, line);
    if (fault) skip(line, fault, fault === 'country_unknown' ? namedValue(entry.country) : undefined);
    else taken++;
  };
  const postpone = (entry: DatasetEntry, line: number) => {
    if (postponed.length === MAX_ROWS) throw tooLong();
    postponed.push({ entry, line });
  };
  const row = (cells: readonly string[], line: number) => {
    if (!shape || line <= csv.headerLine) return;
    const fault = shape.faultOf(cells);
    const entry = shape.read(cells, fault ? () => undefined : notUnderstood.add);
    const { length } = entry.start;
    lengths[length] = (lengths[length] ?? 0) + 1;
    if (fault) skip(line, fault);
    else if (ONE_DIGIT_SHORT.has(length)) postpone(entry, line);
    else add(entry, line);
  };
  const finish = (about: Omit<DatasetAbout, 'licence'> & Partial<DatasetAbout>): DatasetFileResult => {
    const { source } = about;
    if (!shape) return { problem: headerProblem(source, csv, options) };
    if (shape.repeatedColumn !== undefined) return { problem: repeatedColumnProblem(source, shape.repeatedColumn) };
    for (const { entry, line } of postponed) {
      const { length } = entry.start;
      if ((lengths[length] ?? 0) < (lengths[length + 1] ?? 0)) skip(line, 'leading_zeros_lost');
      else add(entry, line);
    }
    if (taken === 0) {
      const texts = [...reasons.values()].map((reason) => `${describeReason(reason)}.`);
      const problem = [`${source} has no usable row: all ${skipped} were left out.`, ...texts].join(' ');
      return { problem: skipped > 0 ? problem : `${source} has no row after its header. Check that it is complete.` };
    }
    const { dataset, conflicts } = builder.finish({ licence: NO_LICENCE, ...about });
    const byLine = faults.sort((a, b) => a.line - b.line);
    const report = { shape: shape.name, taken, skipped, faults: byLine, reasons: [...reasons.values()], conflicts };
    return { dataset, report: { ...report, notUnderstood: notUnderstood.list() } };
  };
  return { row, skip, finish };
}

/** Returns one sentence for the operator that says what is wrong and what to do. */
export function unreadable(path: string, error: unknown): string {
  if (error instanceof UnusableFile) return `${path} ${error.message}`;
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
  if (code === 'ENOENT') return `${path} does not exist: check the path.`;
  if (code === 'EACCES' || code === 'EPERM') return `${path} cannot be read: check its permissions.`;
  if (code === 'EISDIR') return `${path} is a directory: enter the path of the CSV file.`;
  if (code === TOO_LONG)
    return `${path} has more than ${MAX_ROWS.toLocaleString('en-GB')} rows or distinct texts. Remove rows or columns that you do not need.`;
  if (code.startsWith('Z_'))
    return `${path} is damaged: it starts like a gzip file but cannot be unpacked. Download it again.`;
  return `${path} cannot be read as CSV (${code}): check that it is the right file, and that it is complete.`;
}
