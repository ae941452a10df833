/** Owns the defence of a CSV stream against single bad lines: one forgotten quote must not swallow all that follows. */

const LONGEST_LINE = 64 * 1024;
const BATCH = 64 * 1024;

/**
 * Passes the lines on in batches. A line that is longer than 64 KB or ends inside quotes is reported by its number
 * (the first line is 1) and passed on empty, so that the lines after it keep their numbers. Fields over several lines
 * are therefore refused: BIN data sets have none.
 */
export async function* soundLines(
  chunks: AsyncIterable<string>,
  refuse: (line: number) => void,
): AsyncGenerator<string> {
  let line = 0;
  let batch = '';
  let overlong = false;
  const take = (text: string) => {
    line++;
    const sound = !overlong && text.length <= LONGEST_LINE && !endsInsideQuotes(text);
    if (!sound) refuse(line);
    overlong = false;
    batch += sound ? `${text}\n` : '\n';
  };
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const text of lines) take(text);
    if (rest.length > LONGEST_LINE) {
      overlong = true;
      rest = '';
    }
    if (batch.length > BATCH) {
      yield batch;
      batch = '';
    }
  }
  if (rest || overlong) take(rest);
  yield batch;
}

/** Follows the parser's rule: a quote opens at the start of a field and closes before a comma or the line's end. */
function endsInsideQuotes(line: string): boolean {
  if (!line.includes('"')) return false;
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  let quoted = false;
  for (let index = 0, atStart = true; index < text.length; index++) {
    const isQuote = text[index] === '"';
    if (quoted && isQuote && text[index + 1] === '"') index++;
    else if (quoted && isQuote) quoted = false;
    else if (isQuote && atStart) quoted = true;
    atStart = !quoted && text[index] === ',';
  }
  return quoted;
}
