/** Adds BIN facts to a CSV of any length: reads it as a stream and looks up a thousand rows at a time. */
import { pipeline } from 'node:stream/promises';
import { CsvError, type Info, parse } from 'csv-parse';
import { type CsvText, readHeader } from '../../shared/bin/csv-header.ts';
import { decodedText } from '../../shared/bin/csv-text.ts';
import { holdsNumbers, listOf, NO_HEADER } from '../../shared/bin/header-problem.ts';
import type { LookupResult } from '../../shared/bin/lookup-result.ts';
import { digitsOfSpreadsheetNumber, parseBin } from '../../shared/bin/parse-bin.ts';
import { AppError } from '../../shared/errors.ts';
import { type BinLookup, MAX_BULK_BINS } from './lookup.ts';

export interface EnrichParts {
  /** The bytes of the CSV; its first line names the columns. */
  input: AsyncIterable<Uint8Array>;
  /** Name of the column that holds BINs, in any case. */
  column: string;
  lookup: BinLookup;
  /** Writes a batch of lines. The next batch is read when it resolves. */
  write: (text: string) => Promise<void>;
}

export interface EnrichReport {
  rows: number;
  /** Rows by the source of their facts, or by their problem. */
  outcomes: Record<string, number>;
}

/** Columns that are added to each row, in this order. */
const ADDED_COLUMNS = [
  'scheme',
  'type',
  'brand',
  'prepaid',
  'country',
  'bank',
  'source',
  'as_of',
  'digits_matched',
  'problem',
];
const MAX_ROW_BYTES = 1024 * 1024;
/** A value with more digits is taken for a card number, or part of one. */
const MAX_DIGITS = 8;

interface Row {
  record: string[];
  /** The text of the row in the file. */
  raw: string;
  info: Info;
}

/**
 * A value that is not a BIN gets a problem in its row. A value with more digits stops the work before its batch is
 * looked up, because the column then holds card numbers (R85). The caller must then discard what has been written.
 * @throws AppError `invalid_request` with the row and the column, never with the value
 */
export async function enrichCsv(parts: EnrichParts): Promise<EnrichReport> {
  const csv = await readHeader(decodedText(parts.input), (header) => columnsNamed(parts.column, header).length > 0);
  const work = createBatches(parts, csv);
  const parser = parse({
    delimiter: csv.separator,
    info: true,
    max_record_size: MAX_ROW_BYTES,
    raw: true,
    relax_column_count: true,
    relax_quotes: true,
  });
  try {
    await pipeline(csv.text, parser, async (rows: AsyncIterable<Row>) => {
      for await (const row of rows) await work.take(row);
    });
  } catch (error) {
    throw toRefusal(error, work.line());
  }
  return work.finish();
}

function createBatches({ column, lookup, write }: EnrichParts, { separator, firstLine }: CsvText) {
  const outcomes: Record<string, number> = {};
  let binColumn: number | undefined;
  let width = 0;
  let rows = 0;
  let line = firstLine;
  let batch: string[][] = [];
  const sevenDigits = { count: 0, firstLine: 0 };
  let eightDigits = 0;

  const countDigits = (value: string) => {
    if (/^\d{8}$/.test(value)) eightDigits++;
    if (!/^\d{7}$/.test(value)) return;
    if (sevenDigits.count === 0) sevenDigits.firstLine = line;
    sevenDigits.count++;
  };

  const flush = async (): Promise<void> => {
    // Before the batch is looked up, since a shorter BIN has the facts of other cards.
    if (sevenDigits.count > 0 && sevenDigits.count < eightDigits)
      throw leadingZerosError(sevenDigits.firstLine, column);
    const values = batch.map((cells) => cells[binColumn ?? 0]?.trim() ?? '');
    const parsed = values.map((value) => parseBin(value).bin);
    const results = await lookup.lookUpMany(
      parsed.filter((bin) => bin !== undefined),
      { kind: 'operator' },
    );
    let next = 0;
    const lines = batch.map((cells, index) => {
      const result = parsed[index] === undefined ? undefined : results[next++];
      const outcome = outcomeOf(result, values[index]);
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      return lineOf([...padded(cells, width), ...factsOf(result, outcome)], separator);
    });
    rows += batch.length;
    batch = [];
    if (lines.length > 0) await write(lines.join(''));
  };

  const header = async (cells: readonly string[]): Promise<void> => {
    binColumn = findColumn(cells, column);
    width = cells.length;
    await write(lineOf([...cells, ...ADDED_COLUMNS.map((name) => `bin_${name}`)], separator));
  };

  return {
    line: () => line,
    async take({ record, raw, info }: Row): Promise<void> {
      if (record.some((cell) => swallowsLines(cell, raw))) throw openQuoteError(line);
      line = info.lines + firstLine - 1;
      if (binColumn === undefined) return header(record);
      const value = record[binColumn] ?? '';
      const digits = digitsOfSpreadsheetNumber(value.trim());
      if ((digits ?? digitsIn(value)) > MAX_DIGITS) throw cardNumberError(line, column);
      if (digits !== undefined) throw spreadsheetError(line, column);
      if (record.slice(width).some((cell) => cell !== '')) throw tooManyCellsError(line);
      countDigits(value.trim());
      batch.push(record);
      if (batch.length === MAX_BULK_BINS) await flush();
    },
    async finish(): Promise<EnrichReport> {
      if (binColumn === undefined) throw refused('The file is empty: its first line must name the columns.');
      await flush();
      return { rows, outcomes };
    },
  };
}

function findColumn(header: readonly string[], column: string): number {
  // The operator gave a value instead of a name, so the message must not repeat it.
  if (digitsIn(column) > MAX_DIGITS)
    throw refused('The --column value looks like a card number: use the name of a column in the first line.');
  if (ADDED_COLUMNS.some((added) => columnsNamed(`bin_${added}`, header).length > 0))
    throw refused('The file already has columns of an earlier enrichment: remove them first.');
  const matches = columnsNamed(column, header);
  if (matches.length > 1) throw refused(`Several columns are named "${column}": give them different names.`);
  if (matches[0] !== undefined) return matches[0];
  if (holdsNumbers(header)) throw refused(`The file ${NO_HEADER}`);
  throw refused(
    `No column is named "${column}". The first line has: ${listOf(header)}. Use one of these with --column.`,
  );
}

function columnsNamed(column: string, header: readonly string[]): number[] {
  const wanted = column.trim().toLowerCase();
  return header.flatMap((name, index) => (name.trim().toLowerCase() === wanted ? [index] : []));
}

/** The parser takes lines up to the next quote into the cell if a quote opens it and is not closed. */
function swallowsLines(cell: string, raw: string): boolean {
  return cell.startsWith('"') && cell.includes('\n') && !raw.includes(quoted(cell));
}

/** Counts digits of any script, wherever they are in the text. */
function digitsIn(text: string): number {
  return text.match(/\p{Nd}/gu)?.length ?? 0;
}

function padded(cells: readonly string[], width: number): string[] {
  return Array.from({ length: width }, (_, index) => cells[index] ?? '');
}

/** @param result undefined if the value is not a BIN */
function outcomeOf(result: LookupResult | undefined, value = ''): string {
  if (!result) return /^\d{1,5}$/.test(value) ? 'leading_zeros_lost' : 'invalid_bin';
  return result.problem ?? result.serviceProblem?.problem ?? result.source;
}

function factsOf(result: LookupResult | undefined, outcome: string): string[] {
  if (!result || result.problem !== undefined) return [...ADDED_COLUMNS.slice(1).map(() => ''), outcome];
  const { record, source, asOf, digitsMatched, serviceProblem } = result;
  const { scheme, type, brand, prepaid, country, bank } = record;
  const facts = [scheme, type, brand, prepaid === undefined ? undefined : String(prepaid), country?.alpha2, bank?.name];
  return [...facts.map(withoutFormula), source, asOf, String(digitsMatched), serviceProblem?.problem ?? ''];
}

/** Prefixes text that a spreadsheet would run as a formula with an apostrophe. */
function withoutFormula(text = ''): string {
  return /^[=+\-@\t]/.test(text) ? `'${text}` : text;
}

function lineOf(cells: readonly string[], separator: string): string {
  const isPlain = (cell: string) => !cell.includes(separator) && !/["\r\n]/.test(cell);
  return `${cells.map((cell) => (isPlain(cell) ? cell : quoted(cell))).join(separator)}\n`;
}

function quoted(cell: string): string {
  return `"${cell.replaceAll('"', '""')}"`;
}

function cardNumberError(line: number, column: string): AppError {
  return refused(
    `Line ${line}, column "${column}": the value has more than 8 digits, so the column seems to hold card numbers. Reading has stopped. Use a file with only the first 6 to 8 digits.`,
  );
}

function spreadsheetError(line: number, column: string): AppError {
  return refused(
    `Line ${line}, column "${column}": a spreadsheet has changed the number, such as to 45717360.0 or 4.57E+07. Format the column as text, export the file again, and start again.`,
  );
}

function leadingZerosError(line: number, column: string): AppError {
  return refused(
    `Line ${line}, column "${column}": the number has 7 digits and most others have 8, so it seems to have lost a leading zero. Format the column as text, export the file again, and start again.`,
  );
}

/** Such a row would put the facts into the wrong columns, or lose cells. */
function tooManyCellsError(line: number): AppError {
  return refused(`Line ${line} has more cells than the first line: correct it and start again.`);
}

function openQuoteError(line: number): AppError {
  return refused(`The row after line ${line} has a quote that is not closed: close it, or remove it, and start again.`);
}

function toRefusal(error: unknown, line: number): unknown {
  return error instanceof CsvError
    ? refused(
        `The row after line ${line} cannot be read as CSV (${error.code}): close its quotes, or remove them, and start again.`,
      )
    : error;
}

function refused(detail: string): AppError {
  return new AppError('invalid_request', { detail });
}
