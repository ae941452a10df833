/** Faults of the rows of a data set file, and their description. */
import type { LineFault } from './csv-lines.ts';
import type { Conflicts, EntryFault } from './dataset-builder.ts';
import type { ShapeFault } from './dataset-rows.ts';

export interface RowFault {
  /** The first line of the file is line 1. */
  line: number;
  reason: EntryFault | LineFault | ShapeFault;
  /** The country of a row whose country is unknown. */
  value?: string;
}

/** How many rows were skipped for one reason, and the first of them. */
export interface SkipReason {
  count: number;
  first: RowFault;
}

const EXPORT_AS_TEXT = 'format the column as text and export it again';

/** Each ends with what to do next. */
const DESCRIPTIONS: Readonly<Record<RowFault['reason'], string>> = {
  not_6_to_11_digits:
    'the range does not begin and end with 6 to 11 digits, or with longer numbers padded with 0 and 9: correct it',
  leading_zeros_lost: `the number has fewer digits than others, so it seems to have lost leading zeros: ${EXPORT_AS_TEXT}`,
  spreadsheet_number: `a spreadsheet has changed the number, such as to 45717360.0 or 4.57E+07: ${EXPORT_AS_TEXT}`,
  more_than_8_digits:
    'no lookup can use it, since it covers no BIN of 8 digits completely: leave it out, or enter the range of the whole BIN',
  range_reversed: 'the range ends before it begins: exchange its limits',
  country_missing: 'the country is missing: enter its code',
  country_unknown: 'the country is not in ISO 3166-1: enter the code of a country, or remove the row',
  not_csv:
    'the line is not valid CSV, since a quote is not closed, or it is longer than 64 KB: close the quote, or remove it',
  damaged_text: 'it has the character � in place of one that an earlier conversion has lost: export it again as UTF-8',
  too_few_columns: 'it has fewer cells than the header has columns: add the missing ones',
  too_many_columns: 'it has more cells than the header has columns: put a cell that has the separator in quotes',
  countries_differ:
    'its columns name two countries, as if cells had moved: put a cell that has the separator in quotes, or correct the country',
};

export function describeFault({ reason, value }: Omit<RowFault, 'line'>): string {
  return value === undefined
    ? DESCRIPTIONS[reason]
    : DESCRIPTIONS[reason].replace('country', () => `country “${value}”`);
}

export function describeReason({ count, first }: SkipReason): string {
  const rows = `${count.toLocaleString('en-GB')} ${count === 1 ? 'row' : 'rows'}`;
  return `${rows}, such as line ${first.line}: ${describeFault(first)}`;
}

export function describeConflicts({ count }: Conflicts): string {
  const bins = count === 1 ? '1 BIN or range comes' : `${count.toLocaleString('en-GB')} BINs or ranges come`;
  return `${bins} more than once, with different facts. Only what their rows have in common is used: correct the rows, and import the file again.`;
}

/** Says where a range comes more than once. */
export function linesOf(lines: readonly number[]): string {
  return `lines ${lines.slice(0, -1).join(', ')} and ${lines.at(-1)}`;
}
