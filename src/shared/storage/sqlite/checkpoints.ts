/**
 * Keeps the log short. When the log has grown, a separate thread copies it into the database file, so that no flush of
 * a checkpoint blocks the event loop.
 */
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import type { CheckpointPhase, CheckpointReply } from './checkpoint-worker.ts';
import { FlushFault, isDeviceFault } from './faults.ts';
import type { LogFlush } from './log-flush.ts';
import type { SqliteWriter } from './writer.ts';

/** A log of about 4 MB is copied. Its file keeps this size, and is overwritten from its beginning. */
const MIN_FRAMES = 1_000;
/** The time for which writes may wait while the rest of the log is copied. On a good disk it takes milliseconds. */
const MAX_PAUSE_MS = 1_000;
/** A log of more than about 64 MB is copied regardless of waiting writes, so that a slow disk does not fill up. */
const MAX_FRAMES = 16_000;
const MIN_INTERVAL_MS = 1_000;
const REPORT_INTERVAL_MS = 60_000;

export interface CheckpointObserver {
  /** Called at most once a minute if the log could not be copied, or the thread has ended. The copy is retried. */
  checkpointFailed(facts: { file: string; cause: unknown }): void;
}

export interface Checkpoints {
  /** Copies the log if it has grown enough, or if a flush has failed, which only a copy can repair. */
  consider(): void;
  /** Copies the log regardless of its length. */
  begin(): void;
  close(): Promise<void>;
}

/**
 * Creates the checkpoints of this process. Each process on a file makes its own, and SQLite allows one at a time. If
 * another process restarts the log first, or closes the database, the main thread may have to flush the header of the
 * log once.
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
  let checkpoint: Promise<void> | undefined;
  let threshold = MIN_FRAMES;
  let startedAt = Number.NEGATIVE_INFINITY;
  let reportedAt = Number.NEGATIVE_INFINITY;
  let isClosed = false;

  const report = (cause: unknown) => {
    if (performance.now() - reportedAt < REPORT_INTERVAL_MS) return;
    reportedAt = performance.now();
    observer?.checkpointFailed({ file, cause });
  };

  const framesInLog = (): number => {
    try {
      return Number(logState.get()?.log);
    } catch {
      // The next write reports the fault.
      return 0;
    }
  };

  const copyLog = async () => {
    const failure = flush.failure();
    worker ??= startThread(file, {
      onPhase: flush.checkpointed,
      onEnd(cause) {
        worker = undefined;
        // During a checkpoint, `begin` reports the cause.
        if (!checkpoint && !isClosed) report(cause);
      },
    });
    const { run } = worker;
    await run('copy');
    const isUrgent = failure !== undefined || framesInLog() > MAX_FRAMES;
    writer.pause(new FlushFault(`A checkpoint of ${file} takes longer than a write may wait`));
    let isRestarted = false;
    try {
      const copyOfRest = run('copy');
      if (isUrgent || (await endsWithin(copyOfRest, MAX_PAUSE_MS))) {
        await copyOfRest;
        // Without a time limit, because a write of the main thread might otherwise have to flush the header of the new
        // log.
        isRestarted = await run('restart');
      } else {
        // Writes of the main thread only append to the log, since the reader of the thread stays until the next
        // checkpoint.
        writer.resume();
        await copyOfRest;
      }
    } finally {
      writer.resume();
    }
    // If the log was not restarted, the next attempt waits until it has grown by the same amount again.
    threshold = MIN_FRAMES + (isRestarted ? 0 : framesInLog());
    if (isRestarted && failure) flush.restored(failure);
  };

  const begin = () => {
    if (isClosed || checkpoint) return;
    startedAt = performance.now();
    checkpoint = copyLog()
      .catch((cause: unknown) => {
        threshold = MIN_FRAMES + framesInLog();
        // Data that SQLite failed to flush may also be missing in the log.
        if (isDeviceFault(cause)) flush.fail(cause);
        report(cause);
      })
      .finally(() => {
        checkpoint = undefined;
      });
  };

  return {
    consider() {
      if (checkpoint) return;
      if (flush.failure() === undefined ? framesInLog() > threshold : performance.now() - startedAt > MIN_INTERVAL_MS)
        begin();
    },
    begin,
    async close() {
      isClosed = true;
      await checkpoint;
      await worker?.close();
    },
  };
}

interface CheckpointThread {
  run(phase: CheckpointPhase): Promise<boolean>;
  close(): Promise<void>;
}

/** @param handlers `onPhase`: called after each phase; `onEnd`: called when the thread has ended for any reason */
function startThread(
  file: string,
  { onPhase, onEnd }: { onPhase: (milliseconds: number) => void; onEnd: (error: Error) => void },
): CheckpointThread {
  const thread = new Worker(new URL('./checkpoint-worker.ts', import.meta.url), { workerData: file });
  // While the thread works, a write or a close waits for it and keeps the process alive.
  thread.unref();
  const pendingReplies: PromiseWithResolvers<boolean>[] = [];
  let endError: Error | undefined;
  const end = (error: Error): void => {
    if (endError) return;
    endError = error;
    onEnd(error);
    for (const { reject } of pendingReplies.splice(0)) reject(error);
  };
  thread.on('message', (reply: CheckpointReply) => {
    const nextReply = pendingReplies.shift();
    onPhase(reply.milliseconds);
    if ('result' in reply) nextReply?.resolve(reply.result);
    else nextReply?.reject(Object.assign(new Error(reply.message), { errcode: reply.errcode }));
  });
  thread.on('error', (cause) => end(new Error('The thread for checkpoints failed', { cause })));
  const exit = new Promise<void>((resolve) => {
    thread.once('exit', (status) => {
      end(new Error(`The thread for checkpoints ended with ${status}`));
      resolve();
    });
  });
  const run = (phase: CheckpointPhase) => {
    if (endError) return Promise.reject(endError);
    const reply = Promise.withResolvers<boolean>();
    pendingReplies.push(reply);
    thread.postMessage(phase);
    return reply.promise;
  };
  return {
    run,
    async close() {
      thread.ref();
      await run('close').catch(() => undefined);
      await exit;
    },
  };
}

/** Returns whether the promise resolves in this time. Rejects if the promise rejects in this time. */
async function endsWithin(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const timeout = Promise.withResolvers<false>();
  const timer = setTimeout(timeout.resolve, milliseconds, false);
  try {
    return await Promise.race([promise.then(() => true), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
