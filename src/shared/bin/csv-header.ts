/** Finds the header line of a CSV file, and the separator of its cells. */
import { parse } from 'csv-parse/sync';

/** The separators that files may have, in the order in which they are tried. */
const SEPARATORS = [',', ';', '\t', '|'] as const;
const MAX_HEADER_CHARACTERS = 64 * 1024;
/** The line with which Excel is told the separator, such as `sep=;`. */
const SEPARATOR_LINE = /^"?sep=[^\r\n]?"?[,;\t|]*\r?\n/i;

export interface CsvText {
  separator: string;
  /** The number of the first line of the text: 2 after a line such as `sep=;`, which is left out. */
  firstLine: number;
  /** The cells of the header; empty if the file is. */
  header: readonly string[];
  text: AsyncIterable<string>;
}

/**
 * Reads the header, and returns it with the whole text. The separator is the one with which the header has the wanted
 * columns; without any, the one with which it has the most cells.
 */
export async function readHeader(
  chunks: AsyncIterable<string>,
  hasWantedColumns: (header: readonly string[]) => boolean,
): Promise<CsvText> {
  const iterator = chunks[Symbol.asyncIterator]();
  let start = '';
  while (start.length < MAX_HEADER_CHARACTERS) {
    const { value, done } = await iterator.next();
    if (done) break;
    start += value;
  }
  const separatorLine = SEPARATOR_LINE.exec(start)?.[0] ?? '';
  start = start.slice(separatorLine.length);
  async function* text() {
    yield start;
    yield* { [Symbol.asyncIterator]: () => iterator };
  }
  const headers = SEPARATORS.map((separator) => ({ separator, header: firstRecord(start, separator) }));
  const chosen =
    headers.find(({ header }) => hasWantedColumns(header)) ??
    headers.reduce((most, next) => (next.header.length > most.header.length ? next : most));
  return { ...chosen, firstLine: separatorLine ? 2 : 1, text: text() };
}

function firstRecord(text: string, delimiter: string): string[] {
  try {
    const options = { delimiter, relax_quotes: true, relax_column_count: true, skip_empty_lines: true, to: 1 };
    const [record = []]: string[][] = parse(text, options);
    return record;
  } catch {
    // A quote is not closed, or not with this separator.
    return [];
  }
}
