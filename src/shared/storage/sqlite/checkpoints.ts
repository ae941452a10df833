/**
 * Keeps the log short: when it has grown, a thread of its own copies it into the database file, so that no flush of a checkpoint
 * holds up the event loop.
 */
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import type { CheckpointReply, CheckpointStep } from './checkpoint-worker.ts';
import { FlushFault, isDeviceFault } from './faults.ts';
import type { LogFlush } from './log-flush.ts';
import type { SqliteWriter } from './writer.ts';

/** About 4 MB. The log stays as long, and is written from its beginning again. */
const FRAMES = 1_000;
/** How long writes may wait while the rest of the log is copied. On a good disk that takes milliseconds. */
const MAX_PAUSE_MS = 1_000;
/** About 64 MB. A longer log is copied however long writes wait, so that a slow disk does not become a full one. */
const MAX_FRAMES = 16_000;
const MIN_INTERVAL_MS = 1_000;
const REPORT_INTERVAL_MS = 60_000;

export interface CheckpointObserver {
  /** The log could not be copied into the database file, or the thread has ended. At most once a minute; it is tried again. */
  checkpointFailed(facts: { file: string; cause: unknown }): void;
}

export interface Checkpoints {
  /** Copies the log if it has grown enough, or if only that can restore it after a failed flush. */
  consider(): void;
  /** Copies the log whatever its length. */
  begin(): void;
  close(): Promise<void>;
}

/**
 * Several processes on one file do this each for itself; SQLite lets one at a time. Where another process begins the log anew first,
 * and where it closes the database, the main thread may have to flush the header of the log, once.
 */
export function createCheckpoints(parts: {
  file: string;
  database: DatabaseSync;
  writer: Pick<SqliteWriter, 'pause' | 'resume'>;
  flush: LogFlush;
  observer?: CheckpointObserver | undefined;
}): Checkpoints {
  const { file, database, writer, flush, observer } = parts;
  const logState = database.prepare('PRAGMA wal_checkpoint(NOOP)');
  let worker: CheckpointThread | undefined;
  let round: Promise<void> | undefined;
  let threshold = FRAMES;
  let begunAt = Number.NEGATIVE_INFINITY;
  let reportedAt = Number.NEGATIVE_INFINITY;
  let closed = false;

  const report = (cause: unknown) => {
    if (performance.now() - reportedAt < REPORT_INTERVAL_MS) return;
    reportedAt = performance.now();
    observer?.checkpointFailed({ file, cause });
  };

  const framesInLog = (): number => {
    try {
      return Number(logState.get()?.log);
    } catch {
      // The next write reports what is wrong.
      return 0;
    }
  };

  const copyLog = async () => {
    const failure = flush.failure();
    worker ??= startThread(file, {
      onStep: flush.checkpointed,
      onEnd(cause) {
        worker = undefined;
        // During a round, its caller reports it.
        if (!round && !closed) report(cause);
      },
    });
    const { ask } = worker;
    await ask('copy');
    const isUrgent = failure !== undefined || framesInLog() > MAX_FRAMES;
    writer.pause(new FlushFault(`A checkpoint of ${file} takes longer than a write may wait`));
    let isNew = false;
    try {
      const rest = ask('copy');
      if (isUrgent || (await endsWithin(rest, MAX_PAUSE_MS))) {
        await rest;
        // Without a limit: meanwhile, a write of the main thread could be the one that has to flush the header of the new log.
        isNew = await ask('restart');
      } else {
        // Safe for the main thread: it adds to the log, since the reader of the other thread stays until the next round.
        writer.resume();
        await rest;
      }
    } finally {
      writer.resume();
    }
    // After a long reader, or on a slow disk, the next attempt waits until the log has grown as much again.
    threshold = FRAMES + (isNew ? 0 : framesInLog());
    if (isNew && failure) flush.restored(failure);
  };

  const begin = () => {
    if (closed || round) return;
    begunAt = performance.now();
    round = copyLog()
      .catch((cause: unknown) => {
        threshold = FRAMES + framesInLog();
        // What SQLite failed to flush may be missing in the log, too.
        if (isDeviceFault(cause)) flush.fail(cause);
        report(cause);
      })
      .finally(() => {
        round = undefined;
      });
  };

  return {
    consider() {
      if (round) return;
      if (flush.failure() === undefined ? framesInLog() > threshold : performance.now() - begunAt > MIN_INTERVAL_MS)
        begin();
    },
    begin,
    async close() {
      closed = true;
      await round;
      await worker?.close();
    },
  };
}

interface CheckpointThread {
  ask(step: CheckpointStep): Promise<boolean>;
  close(): Promise<void>;
}

/** @param handlers `onStep`: called after each step; `onEnd`: when the thread has ended, expected or not */
function startThread(
  file: string,
  { onStep, onEnd }: { onStep: (milliseconds: number) => void; onEnd: (error: Error) => void },
): CheckpointThread {
  const thread = new Worker(new URL('./checkpoint-worker.ts', import.meta.url), { workerData: file });
  // While it works, a write or a close waits for it, and keeps the process alive.
  thread.unref();
  const asked: PromiseWithResolvers<boolean>[] = [];
  let ended: Error | undefined;
  const end = (error: Error): void => {
    if (ended) return;
    ended = error;
    onEnd(error);
    for (const { reject } of asked.splice(0)) reject(error);
  };
  thread.on('message', (reply: CheckpointReply) => {
    const first = asked.shift();
    onStep(reply.milliseconds);
    if ('result' in reply) first?.resolve(reply.result);
    else first?.reject(Object.assign(new Error(reply.message), { errcode: reply.errcode }));
  });
  thread.on('error', (cause) => end(new Error('The thread for checkpoints failed', { cause })));
  const exited = new Promise<void>((resolve) => {
    thread.once('exit', (status) => {
      end(new Error(`The thread for checkpoints ended with ${status}`));
      resolve();
    });
  });
  const ask = (step: CheckpointStep) => {
    if (ended) return Promise.reject(ended);
    const reply = Promise.withResolvers<boolean>();
    asked.push(reply);
    thread.postMessage(step);
    return reply.promise;
  };
  return {
    ask,
    async close() {
      thread.ref();
      await ask('close').catch(() => undefined);
      await exited;
    },
  };
}

/** @throws what the promise rejects with, also after the time */
async function endsWithin(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(late.resolve, milliseconds, false);
  try {
    return await Promise.race([promise.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
