/** Filters the lines of a CSV stream. Otherwise, a parser would read all lines after a missing quote as one field. */
import type { CsvText } from './csv-header.ts';

const MAX_LINE_CHARACTERS = 64 * 1024;
const BATCH_CHARACTERS = 64 * 1024;

/** `damaged_text`: an earlier conversion has replaced characters by U+FFFD, and what they were is lost. */
export type LineFault = 'not_csv' | 'damaged_text';

/**
 * Yields the lines in batches, each with `\n` at its end. A line with a fault is reported by its number and replaced by
 * an empty line, so that later lines keep their numbers; so are the lines before the text. A line is not CSV if it is
 * longer than 64 KB or ends inside quotes. Fields that span several lines are therefore refused; BIN data sets have none.
 */
export async function* validLines(
  { text: chunks, separator, firstLine }: CsvText,
  refuse: (line: number, fault: LineFault) => void,
): AsyncGenerator<string> {
  let line = firstLine - 1;
  let batch = '\n'.repeat(line);
  let isTooLong = false;
  const add = (lineText: string) => {
    const text = lineText.endsWith('\r') ? lineText.slice(0, -1) : lineText;
    line++;
    const isCsv = !isTooLong && text.length <= MAX_LINE_CHARACTERS && !endsInsideQuotes(text, separator);
    const fault = !isCsv ? 'not_csv' : text.includes('\ufffd') ? 'damaged_text' : undefined;
    if (fault) refuse(line, fault);
    isTooLong = false;
    batch += fault ? '\n' : `${text}\n`;
  };
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const text of lines) add(text);
    if (rest.length > MAX_LINE_CHARACTERS) {
      isTooLong = true;
      rest = '';
    }
    if (batch.length > BATCH_CHARACTERS) {
      yield batch;
      batch = '';
    }
  }
  if (rest || isTooLong) add(rest);
  yield batch;
}

/** Follows the parser's rule: a quote opens at the start of a field and closes before a separator or the line's end. */
function endsInsideQuotes(line: string, separator: string): boolean {
  if (!line.includes('"')) return false;
  let isQuoted = false;
  for (let index = 0, atStart = true; index < line.length; index++) {
    const isQuote = line[index] === '"';
    if (isQuoted && isQuote && line[index + 1] === '"') index++;
    else if (isQuoted && isQuote) isQuoted = false;
    else if (isQuote && atStart) isQuoted = true;
    atStart = !isQuoted && line[index] === separator;
  }
  return isQuoted;
}
