/**
 * The thread that copies the log into the database file and restarts the log, with its own connections. Each message
 * names a phase. Each reply has the result of the phase, or the message and the SQLite result code of its error.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { connect } from './database.ts';
import { BEGIN_GENERATION, TOUCH } from './log-state.ts';

export type CheckpointPhase = 'copy' | 'restart' | 'close';
export type CheckpointReply = { milliseconds: number } & (
  | { result: boolean }
  | { message: string; errcode: number | undefined }
);

/** The busy timeout: long enough for a reader of the main thread to end, and short enough for the waiting writers. */
const BUSY_MS = 50;

const file = String(workerData);
const [database, reader] = [connect(file, BUSY_MS), connect(file, BUSY_MS)];
// A commit does not wait for the disk. The header of a restarted log does, and so do both sides of a checkpoint.
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

const PHASES: Record<CheckpointPhase, () => boolean> = {
  /**
   * Copies the present content of the log while writers continue. If the log was copied completely, the next writer
   * would restart it; the reader prevents that until `restart`.
   */
  copy() {
    if (reader.isTransaction) {
      const { frames, copied } = checkpoint('NOOP');
      // A reader that begins now would read only the file, and would not prevent a restart of the log.
      if (frames === copied) return true;
      reader.exec('COMMIT');
    }
    reader.exec('BEGIN');
    reader.prepare('SELECT in_use FROM log_state').get();
    checkpoint('PASSIVE');
    return true;
  },
  /**
   * Returns whether the log was restarted. This connection writes first, and so flushes the header. It also writes if a
   * reader prevents the restart, because the reader may have ended before the next write.
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

parentPort?.on('message', (phase: CheckpointPhase) => {
  const startedAt = performance.now();
  const milliseconds = () => performance.now() - startedAt;
  let reply: CheckpointReply;
  try {
    const result = PHASES[phase]();
    reply = { result, milliseconds: milliseconds() };
  } catch (error) {
    if (reader.isOpen && reader.isTransaction) reader.exec('ROLLBACK');
    const { message, errcode } = error as Error & { errcode?: number };
    reply = { message, errcode, milliseconds: milliseconds() };
  }
  parentPort?.postMessage(reply);
});
