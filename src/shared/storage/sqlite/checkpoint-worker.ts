/**
 * The thread that copies the log into the database file and begins the log anew, with connections of its own. Each message names a
 * step; each response has its result, or the message and SQLite's result code of its error.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { connect } from './database.ts';
import { BEGIN_GENERATION, TOUCH } from './log-state.ts';

export type CheckpointStep = 'copy' | 'restart' | 'close';
export type CheckpointReply = { milliseconds: number } & (
  | { result: boolean }
  | { message: string; errcode: number | undefined }
);

/** Long enough for a reader of the main thread to end, short enough for the writers that wait meanwhile. */
const BUSY_MS = 50;

const file = String(workerData);
const [database, reader] = [connect(file, BUSY_MS), connect(file, BUSY_MS)];
// A commit does not wait for the disk; the header of a log that begins anew does, and so do both sides of a checkpoint.
database.exec(`
  PRAGMA synchronous = NORMAL;
  PRAGMA fullfsync = ON;
  PRAGMA checkpoint_fullfsync = ON;
  PRAGMA wal_autocheckpoint = 0;
`);
const checkpoint = (mode: 'NOOP' | 'PASSIVE' | 'RESTART') => {
  const { busy, log, checkpointed } = database.prepare(`PRAGMA wal_checkpoint(${mode})`).get() ?? {};
  return { busy: Number(busy), frames: Number(log), copied: Number(checkpointed) };
};

const STEPS: Record<CheckpointStep, () => boolean> = {
  /**
   * Copies what is in the log now. Writers may go on, meanwhile and after it. The next of them would begin a log anew that was
   * copied completely; the reader prevents that until `restart`.
   */
  copy() {
    if (reader.isTransaction) {
      const { frames, copied } = checkpoint('NOOP');
      // A reader that began now would read the file alone, and prevent nothing.
      if (frames === copied) return true;
      reader.exec('COMMIT');
    }
    reader.exec('BEGIN');
    reader.prepare('SELECT in_use FROM log_state').get();
    checkpoint('PASSIVE');
    return true;
  },
  /**
   * Returns whether the log has begun anew. This connection writes first, and so flushes the header. If a reader prevents it,
   * it writes all the same, since it may be prevented no longer when the next one writes.
   */
  restart() {
    if (reader.isTransaction) reader.exec('COMMIT');
    const { busy, frames } = checkpoint('RESTART');
    database.exec(busy === 0 ? BEGIN_GENERATION : TOUCH);
    return checkpoint('NOOP').frames <= frames;
  },
  close() {
    reader.close();
    database.close();
    parentPort?.close();
    return true;
  },
};

parentPort?.on('message', (step: CheckpointStep) => {
  const startedAt = performance.now();
  const milliseconds = () => performance.now() - startedAt;
  let reply: CheckpointReply;
  try {
    const result = STEPS[step]();
    reply = { result, milliseconds: milliseconds() };
  } catch (error) {
    if (reader.isOpen && reader.isTransaction) reader.exec('ROLLBACK');
    const { message, errcode } = error as Error & { errcode?: number };
    reply = { message, errcode, milliseconds: milliseconds() };
  }
  parentPort?.postMessage(reply);
});
