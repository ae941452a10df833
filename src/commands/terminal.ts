/** Owns what every command has in common: where its settings come from, where it writes, and a bar while it works. */
import { SingleBar } from 'cli-progress';
import type { ConfigSource } from '../config-reader.ts';

/** What the entry file gives to each family of commands. */
export interface Terminal {
  /** The environment and the files that it names; `.env` was read before. */
  source: ConfigSource;
  /** Answers go here, as text for people or as one JSON document. */
  out: NodeJS.WritableStream;
  /** Progress and refusals go here, so that what is piped on holds answers alone. */
  err: NodeJS.WritableStream & { isTTY?: boolean };
  /** Replaces the exit status 0 where the work was done but its answer is bad news. */
  setExitStatus(status: number): void;
}

export interface Progress {
  advance(done: number): void;
  stop(): void;
}

/** A bar on a terminal, and nothing elsewhere. */
export function startProgress(terminal: Terminal, title: string, total: number): Progress {
  if (!terminal.err.isTTY) return { advance: () => undefined, stop: () => undefined };
  const format = `${title} {bar} {percentage} % | {value} of {total} | {eta_formatted} left`;
  const bar = new SingleBar({ format, stream: terminal.err, hideCursor: true, barsize: 30, etaBuffer: 100 });
  bar.start(total, 0);
  return { advance: (done) => bar.increment(done), stop: () => bar.stop() };
}

/** Writes the data as one JSON document, or the text for people. */
export function answer(terminal: Terminal, { json, data, text }: { json: boolean; data: unknown; text: string }): void {
  terminal.out.write(`${json ? JSON.stringify(data) : text}\n`);
}
