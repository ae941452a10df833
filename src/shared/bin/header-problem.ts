/** Describes a header without the wanted columns, and what to do. Repeats no digits of cards (R85). */
import { shellQuoted } from '../text.ts';
import type { CsvText } from './csv-header.ts';
import { missingColumns, SHAPE_NAMES } from './dataset-rows.ts';
import type { FileColumns } from './record.ts';
import { namedValue } from './texts.ts';

const MAX_LISTED_COLUMNS = 40;
const COLUMNS_ADVICE = 'For another header, use --columns of bin import.';
const SINGLE_CELL =
  'Its first line is a single cell. Separate the columns with a comma, semicolon, tab or |, and do not put whole lines in quotes.';
export const NO_HEADER = 'has no header: its first line holds numbers. Add a first line that names the columns.';

export interface HeaderOptions {
  /** The columns of a file with an unknown shape. */
  columns?: FileColumns | undefined;
  /** The advice for a file with an unknown shape. Default: use `--columns` of `bin import`. */
  shapeAdvice?: string;
}

export function headerProblem(source: string, csv: CsvText, options: HeaderOptions): string {
  const { header } = csv;
  const { columns, shapeAdvice = COLUMNS_ADVICE } = options;
  if (header.length === 0)
    return `${source} is empty, or its first line is not CSV. The first line must name the columns.`;
  if (holdsNumbers(header)) return `${source} ${NO_HEADER}`;
  const itsColumns = header.length === 1 ? SINGLE_CELL : `Its columns are: ${listOf(header)}.`;
  const missing = missingColumns(header, columns);
  const names = missing.columns.join(', ');
  const lacks = `${source} lacks ${missing.columns.length === 1 ? 'the column' : 'the columns'} ${names}`;
  const advice = missing.isCountry ? `${countryAdvice(names, csv)} ` : '';
  if (columns) return `${lacks}. ${itsColumns} ${advice}Name columns that it has.`;
  if (missing.shape) return `${lacks} of the format ${missing.shape}. ${itsColumns} ${advice}${shapeAdvice}`;
  return `The first line of ${source} is not the header of a known data set. ${itsColumns} Known headers: ${SHAPE_NAMES}. ${shapeAdvice}`;
}

/** Rows would be read by one of the columns, which may be the wrong one. */
export function repeatedColumnProblem(source: string, column: string): string {
  return `${source} has the column ${listOf([column])} more than once. Keep one of them, or give the others different names.`;
}

/** Returns whether the line is a row of a file without a header. */
export function holdsNumbers(header: readonly string[]): boolean {
  return header.some((name) => /^\s*\d{4,}\s*$/.test(name));
}

/** Lists the names for a message. A name without a letter may be a part of a card number. */
export function listOf(header: readonly string[]): string {
  const names = header.filter((name) => name.trim() !== '');
  const listed = names
    .slice(0, MAX_LISTED_COLUMNS)
    .map((name) => (/\p{L}/u.test(name) && namedValue(name)) || '(not shown)');
  const more = names.length - listed.length;
  return listed.join(', ') + (more > 0 ? `, and ${more.toLocaleString('en-GB')} more` : '');
}

/** The command adds the column to each line. It leaves out a line such as `sep=;`. */
function countryAdvice(column: string, { separator, firstLine }: CsvText): string {
  const [name, code] = [column, 'TR'].map((cell) => JSON.stringify(separator + cell));
  const lines = firstLine === 1 ? '' : `NR >= ${firstLine} `;
  const program = `${lines}{ sub(/\\r$/, ""); print $0 (NR == ${firstLine} ? ${name} : ${code}) }`;
  return `If all rows are of one country, add the column with its code, such as TR: \`awk ${shellQuoted(program)} OLD.csv > NEW.csv\`.`;
}
