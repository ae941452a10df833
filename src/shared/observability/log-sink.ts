/**
 * Writes the log to a file descriptor in batches; lines that cannot be written are dropped and counted.
 * pino's destination (sonic-boom 4.2.1) has `maxLength` and `drop`, but its `flushSync`, the only way to write the last
 * lines before the process ends, retries a write to a full disk forever: with /dev/full, it had not returned after 8 s.
 */
import { write, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { codeOf } from '../errors.ts';

const BATCH_CHARACTERS = 4_096;
const BATCH_MS = 250;
const MAX_WAITING_CHARACTERS = 1_048_576;
const FULL_PIPE_PAUSE_MS = 20;
const MAX_FLUSH_MS = 1_000;

const writeBytes = promisify(write);

export interface LogSink {
  write(line: string): void;
  /** Resolves once every line is written or dropped, after one second at most. */
  flush(): Promise<void>;
  /** Returns the number of lines that could not be written. */
  dropped(): number;
}

export function openLogSink(descriptor: number): LogSink {
  let waitingLines: string[] = [];
  let waitingCharacters = 0;
  let droppedLines = 0;
  /** True if the last batch may have ended within a line, so that the next one must start with a line break. */
  let isLineTorn = false;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;

  const take = (): string[] => {
    const lines = waitingLines;
    waitingLines = [];
    waitingCharacters = 0;
    return lines;
  };

  const writeWaiting = async () => {
    while (waitingLines.length > 0) {
      const lines = take();
      try {
        await writeAll(descriptor, Buffer.from(`${isLineTorn ? '\n' : ''}${lines.join('')}`));
        isLineTorn = false;
      } catch {
        droppedLines += lines.length;
        isLineTorn = true;
      }
    }
    writing = undefined;
  };

  const startWriting = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    // Without lines, `writeWaiting` would end before this assignment, and `writing` would never be reset.
    if (waitingLines.length > 0) writing ??= writeWaiting();
    return writing ?? Promise.resolve();
  };

  // The last lines of a process that ends with an error can only be written synchronously.
  process.once('exit', () => {
    try {
      writeSync(descriptor, take().join(''));
    } catch {}
  });

  return {
    write(line) {
      if (waitingCharacters + line.length > MAX_WAITING_CHARACTERS) {
        droppedLines += 1;
        return;
      }
      waitingLines.push(line);
      waitingCharacters += line.length;
      if (waitingCharacters >= BATCH_CHARACTERS) void startWriting();
      else timer ??= setTimeout(startWriting, BATCH_MS).unref();
    },
    flush: () => Promise.race([startWriting(), sleep(MAX_FLUSH_MS)]),
    dropped: () => droppedLines,
  };
}

async function writeAll(descriptor: number, bytes: Buffer): Promise<void> {
  for (let offset = 0; offset < bytes.length; ) {
    try {
      offset += (await writeBytes(descriptor, bytes, offset)).bytesWritten;
    } catch (error) {
      // The pipe is full because its reader is slow.
      if (codeOf(error) !== 'EAGAIN') throw error;
      await sleep(FULL_PIPE_PAUSE_MS, undefined, { ref: false });
    }
  }
}
