/** Owns the enrichment of a CSV of any length: read as a stream, looked up a thousand rows at a time, and given back with its facts. */
import { pipeline } from 'node:stream/promises';
import { type Info, parse } from 'csv-parse';
import { AppError } from '../errors.ts';
import type { LookupAnswer } from './answer.ts';
import { parseBin } from './bin.ts';
import { type BinLookup, MOST_BINS_AT_ONCE } from './lookup.ts';

export interface EnrichParts {
  /** The bytes of the CSV; its first line names the columns. */
  input: NodeJS.ReadableStream;
  /** Name of the column that holds BINs, in any case. */
  column: string;
  lookup: BinLookup;
  /** Takes a batch of lines; the next one is read when it resolves. */
  write: (text: string) => Promise<void>;
}

export interface EnrichReport {
  rows: number;
  /** Rows by the source of their facts, or by their problem. */
  outcomes: Record<string, number>;
}

/** The facts that are added to each row, in this order. */
const ADDED = ['scheme', 'type', 'brand', 'prepaid', 'country', 'bank', 'source', 'as_of', 'digits_matched', 'problem'];
const MOST_BYTES_OF_ROW = 1024 * 1024;
/** More digits than a BIN has: part of a card number, or all of it. */
const MOST_DIGITS = 8;

interface Row {
  record: string[];
  info: Info;
}

/**
 * A value that is no BIN gets its problem beside it. One that holds more digits ends the work before anything of its batch
 * is looked up: such a column holds card numbers (R85), and what was written of the file so far is for the caller to drop.
 * @throws AppError `invalid_request` with the row and the column, never with what stands there
 */
export async function enrichCsv(parts: EnrichParts): Promise<EnrichReport> {
  const work = createBatches(parts);
  const parser = parse({ bom: true, info: true, relax_column_count: true, max_record_size: MOST_BYTES_OF_ROW });
  try {
    await pipeline(parts.input, parser, async (rows: AsyncIterable<Row>) => {
      for await (const row of rows) await work.take(row);
    });
  } catch (error) {
    throw asRefusal(error, work.line());
  }
  return work.finish();
}

function createBatches({ column, lookup, write }: EnrichParts) {
  const outcomes: Record<string, number> = {};
  let at: number | undefined;
  let width = 0;
  let rows = 0;
  let line = 1;
  let batch: string[][] = [];

  const flush = async (): Promise<void> => {
    const parsed = batch.map((cells) => parseBin(cells[at ?? 0]?.trim()).bin);
    const answers = await lookup.lookUpMany(parsed.filter((bin) => bin !== undefined));
    let next = 0;
    const lines = batch.map((cells, index) => {
      const answer = parsed[index] === undefined ? undefined : answers[next++];
      const outcome = answer ? (answer.problem ?? answer.source) : 'invalid_bin';
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      return lineOf([...padded(cells, width), ...factsOf(answer)]);
    });
    rows += batch.length;
    batch = [];
    if (lines.length > 0) await write(lines.join(''));
  };

  const header = async (cells: readonly string[]): Promise<void> => {
    at = placeOf(cells, column);
    width = cells.length;
    await write(lineOf([...cells, ...ADDED.map((name) => `bin_${name}`)]));
  };

  return {
    line: () => line,
    async take({ record, info }: Row): Promise<void> {
      line = info.lines;
      if (at === undefined) return header(record);
      if (digitsIn(record[at] ?? '') > MOST_DIGITS) throw cardNumbers(line, column);
      if (record.slice(width).some((cell) => cell !== '')) throw tooManyCells(line);
      batch.push(record);
      if (batch.length === MOST_BINS_AT_ONCE) await flush();
    },
    async finish(): Promise<EnrichReport> {
      if (at === undefined) throw refused('The file is empty: its first line must name the columns.');
      await flush();
      return { rows, outcomes };
    },
  };
}

function placeOf(header: readonly string[], column: string): number {
  // Then the file has no header, and the name is a value: it is not repeated.
  if (digitsIn(column) > MOST_DIGITS)
    throw refused('The name given with --column looks like a card number: name a column of the first line.');
  const names = header.map((name) => name.trim().toLowerCase());
  if (names.some((name) => ADDED.some((added) => name === `bin_${added}`)))
    throw refused('The file has columns of an earlier enrichment: give the file without them.');
  const places = names.flatMap((name, index) => (name === column.trim().toLowerCase() ? [index] : []));
  if (places.length > 1) throw refused(`Several columns are named "${column}": give each its own name.`);
  if (places[0] !== undefined) return places[0];
  throw refused(`No column is named "${column}": name one of the first line with --column.`);
}

/** Of any script, whatever stands between them. */
function digitsIn(text: string): number {
  return text.match(/\p{Nd}/gu)?.length ?? 0;
}

function padded(cells: readonly string[], width: number): string[] {
  return Array.from({ length: width }, (_, index) => cells[index] ?? '');
}

function factsOf(answer: LookupAnswer | undefined): string[] {
  if (!answer || answer.problem !== undefined)
    return [...ADDED.slice(1).map(() => ''), answer?.problem ?? 'invalid_bin'];
  const { record, source, asOf, digitsMatched } = answer;
  const { scheme, type, brand, prepaid, country, bank } = record;
  const facts = [scheme, type, brand, prepaid === undefined ? undefined : String(prepaid), country?.alpha2, bank?.name];
  return [...facts.map(harmless), source, asOf, String(digitsMatched), ''];
}

/** A text that a spreadsheet would take for a formula is quoted as spreadsheets do it. */
function harmless(text = ''): string {
  return /^[=+\-@\t]/.test(text) ? `'${text}` : text;
}

function lineOf(cells: readonly string[]): string {
  return `${cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(',')}\n`;
}

function cardNumbers(line: number, column: string): AppError {
  return refused(
    `Line ${line}, column "${column}": there are more than 8 digits, so this column seems to hold card numbers. Nothing more was read. Give a file that holds only the first 6 to 8 digits.`,
  );
}

/** The facts would stand under the wrong names, or what stands there would be lost. */
function tooManyCells(line: number): AppError {
  return refused(`Line ${line} has more cells than the first line: mend it and start again.`);
}

function asRefusal(error: unknown, line: number): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return code.startsWith('CSV_')
    ? refused(`The row after line ${line} cannot be read as CSV (${code}): mend it and start again.`)
    : error;
}

function refused(detail: string): AppError {
  return new AppError('invalid_request', { detail });
}
