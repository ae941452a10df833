/** Filters the lines of a CSV stream. Otherwise, a parser would read all lines after a missing quote as one field. */

const MAX_LINE_CHARACTERS = 64 * 1024;
const BATCH_CHARACTERS = 64 * 1024;

/** `damaged_text`: an earlier conversion has replaced characters by U+FFFD, and what they were is lost. */
export type LineFault = 'not_csv' | 'damaged_text';

/**
 * Yields the lines in batches. A line with a fault is reported by its number (from 1) and replaced by an empty line, so
 * that later lines keep their numbers. A line is not CSV if it is longer than 64 KB or ends inside quotes. Fields that
 * span several lines are therefore refused; BIN data sets have none.
 */
export async function* validLines(
  chunks: AsyncIterable<string>,
  refuse: (line: number, fault: LineFault) => void,
): AsyncGenerator<string> {
  let line = 0;
  let batch = '';
  let isTooLong = false;
  const add = (text: string) => {
    line++;
    const isCsv = !isTooLong && text.length <= MAX_LINE_CHARACTERS && !endsInsideQuotes(text);
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

/** Follows the parser's rule: a quote opens at the start of a field and closes before a comma or the line's end. */
function endsInsideQuotes(line: string): boolean {
  if (!line.includes('"')) return false;
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  let isQuoted = false;
  for (let index = 0, atStart = true; index < text.length; index++) {
    const isQuote = text[index] === '"';
    if (isQuoted && isQuote && text[index + 1] === '"') index++;
    else if (isQuoted && isQuote) isQuoted = false;
    else if (isQuote && atStart) isQuoted = true;
    atStart = !isQuoted && text[index] === ',';
  }
  return isQuoted;
}
