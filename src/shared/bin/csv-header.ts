/** Finds the header line of a CSV file, and the separator of its cells. */
import { type Info, parse } from 'csv-parse/sync';
import { UnusableFile } from './csv-text.ts';

/** The separators that files may have, in the order in which they are tried. */
const SEPARATORS = [',', ';', '\t', '|'] as const;
const MAX_HEADER_CHARACTERS = 64 * 1024;
const OLD_LINE_ENDS = 'ends its lines with CR alone. Convert it with `tr "\\r" "\\n" < OLD.csv > NEW.csv`.';
/** The line with which Excel is told the separator, such as `sep=;`. */
const SEPARATOR_LINE = /^"?sep=[^\r\n]?"?[,;\t|]*\r?\n/i;

export interface CsvText {
  separator: string;
  /** The number of the first line of the text: 2 after a line such as `sep=;`, which is left out. */
  firstLine: number;
  /** The cells of the header; empty if the file is. */
  header: readonly string[];
  /** The number of the last line of the header. */
  headerLine: number;
  text: AsyncIterable<string>;
}

/**
 * Reads the header, and returns it with the whole text. The separator is the one with which the header has the wanted
 * columns; without any, the one with which it has the most cells.
 * @throws UnusableFile if the lines end with CR alone
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
  if (!start.includes('\n') && /\r./s.test(start)) throw new UnusableFile(OLD_LINE_ENDS);
  const separatorLine = SEPARATOR_LINE.exec(start)?.[0] ?? '';
  start = start.slice(separatorLine.length);
  async function* text() {
    yield start;
    yield* { [Symbol.asyncIterator]: () => iterator };
  }
  const firstLine = separatorLine ? 2 : 1;
  const headers = SEPARATORS.map((separator) => {
    const { record, lines } = firstRecord(start, separator);
    return { separator, header: record, headerLine: firstLine - 1 + lines };
  });
  const chosen =
    headers.find(({ header }) => hasWantedColumns(header)) ??
    headers.reduce((most, next) => (next.header.length > most.header.length ? next : most));
  return { ...chosen, firstLine, text: text() };
}

function firstRecord(text: string, delimiter: string): { record: string[]; lines: number } {
  const options = {
    delimiter,
    info: true,
    relax_quotes: true,
    relax_column_count: true,
    skip_empty_lines: true,
    to: 1,
  };
  try {
    // The types of `csv-parse` do not know `info`.
    const [first] = parse(text, options) as unknown as { record: string[]; info: Info }[];
    return { record: first?.record ?? [], lines: first?.info.lines ?? 0 };
  } catch {
    // A quote is not closed, or not with this separator.
    return { record: [], lines: 0 };
  }
}
