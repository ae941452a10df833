/** The interface of commands to their surroundings: settings, output, exit status and a progress bar. */
import type { ConfigSource } from '../../shared/config/setting.ts';
import { characterCount } from '../../shared/text.ts';

export interface Terminal {
  /** The environment, including `.env`, or the settings of a running demo, and the files that these name. */
  source: ConfigSource;
  /** For results: text, or one JSON document. */
  out: NodeJS.WritableStream;
  /** For progress and refusals, so that a pipe gets only results. */
  err: NodeJS.WritableStream & { isTTY?: boolean };
  /** Sets the exit status of a command that ran but found problems. */
  setExitStatus(status: number): void;
}

/** Draws a progress bar if the output is a terminal. `work` gets a function that advances it. */
export async function withProgress<T>(
  terminal: Terminal,
  title: string,
  total: number,
  work: (advance: (done: number) => void) => Promise<T>,
): Promise<T> {
  if (!terminal.err.isTTY) return work(() => undefined);
  const { SingleBar } = await import('cli-progress');
  const format = `${title} {bar} {percentage} % | {value} of {total} | {eta_formatted} left`;
  const bar = new SingleBar({ format, stream: terminal.err, hideCursor: true, barsize: 30, etaBuffer: 100 });
  bar.start(total, 0);
  return work((done) => bar.increment(done)).finally(() => bar.stop());
}

/** Aligns the cells in columns. The first row is the header. */
export function tableText(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_cell, column) =>
    rows.reduce((max, row) => Math.max(max, characterCount(row[column] ?? '')), 0),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - characterCount(cell)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function printResult(
  terminal: Terminal,
  { json, data, text }: { json: boolean; data: unknown; text: string },
): void {
  terminal.out.write(`${json ? JSON.stringify(data) : text}\n`);
}
