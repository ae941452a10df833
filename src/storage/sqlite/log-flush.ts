/** Flushes the log of the database off the main thread. One flush serves all writes that were committed before it began. */
import { constants, fdatasync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { unavailable } from '../unavailable.ts';
import { FlushFault } from './faults.ts';

/** A flush that takes longer is reported. */
const SLOW_MS = 500;
const SLOW_REPORT_INTERVAL_MS = 60_000;
/** While a flush takes longer than this, the storage is not ready. */
const NOT_READY_MS = 2_000;
/** Once a flush has taken this long, the writes that wait for it are rejected. Their result is unknown. */
const MAX_FLUSH_MS = 10_000;

export interface FlushObserver {
  /** After each flush, a failed one included. */
  flushed(seconds: number): void;
  /** After a flush of more than half a second, at most once a minute. */
  flushedSlowly(facts: { file: string; milliseconds: number }): void;
}

export interface FlushWaiter {
  done(): void;
  fail(error: unknown): void;
  /** Of the readiness probe, which fails as soon as a flush takes longer than `NOT_READY_MS`. */
  isProbe?: boolean;
}

export interface LogFlush {
  /** Calls `done` once everything that was committed before this call is on the disk. */
  wait(waiter: FlushWaiter): void;
  /** Why no write may be acknowledged now. */
  fault(): FlushFault | undefined;
  /** The failed flush after which none is acknowledged until `restored` is called. */
  failure(): FlushFault | undefined;
  /** From now on no write is acknowledged, until `restored` is called with this fault. */
  fail(error: unknown): void;
  /** The whole log has been copied into the database file, flushed there, and begun anew, all since this fault. */
  restored(fault: FlushFault): void;
  /** Resolves once no write waits for a flush. */
  idle(): Promise<void>;
}

/** @param parts `file`: the database; `sync`: flushes its log */
export function createLogFlush(parts: {
  file: string;
  sync: () => Promise<void>;
  observer?: FlushObserver | undefined;
}): LogFlush {
  const { file, sync, observer } = parts;
  let waiting: FlushWaiter[] = [];
  let underWay: FlushWaiter[] = [];
  let running: Promise<void> | undefined;
  let failed: FlushFault | undefined;
  let overdue: FlushFault | undefined;
  let reportedAt = Number.NEGATIVE_INFINITY;

  const reject = (fault: FlushFault, isConcerned: (waiter: FlushWaiter) => boolean = () => true) => {
    const concerned = [...underWay, ...waiting].filter(isConcerned);
    underWay = underWay.filter((waiter) => !isConcerned(waiter));
    waiting = waiting.filter((waiter) => !isConcerned(waiter));
    for (const waiter of concerned) waiter.fail(refusedBy(fault));
  };

  /**
   * The kernel takes pages that it failed to write for written, so a later flush would succeed and mean nothing. The log is
   * trusted again once it was copied into the database file as a whole and has begun anew.
   */
  const fail = (error: unknown) => {
    failed = new FlushFault(`A flush of ${file}-wal failed`, error);
    reject(failed);
  };

  const report = (milliseconds: number) => {
    observer?.flushed(milliseconds / 1_000);
    if (milliseconds < SLOW_MS || performance.now() - reportedAt < SLOW_REPORT_INTERVAL_MS) return;
    reportedAt = performance.now();
    observer?.flushedSlowly({ file, milliseconds: Math.round(milliseconds) });
  };

  const flushOnce = async () => {
    const startedAt = performance.now();
    const tooLong = (limit: number) => new FlushFault(`A flush of ${file}-wal has taken more than ${limit} ms`);
    let timer = setTimeout(() => {
      reject(tooLong(NOT_READY_MS), ({ isProbe }) => isProbe === true);
      timer = setTimeout(() => {
        overdue = tooLong(MAX_FLUSH_MS);
        reject(overdue);
      }, MAX_FLUSH_MS - NOT_READY_MS);
    }, NOT_READY_MS);
    try {
      await sync();
    } catch (error) {
      fail(error);
    } finally {
      clearTimeout(timer);
      overdue = undefined;
      report(performance.now() - startedAt);
    }
  };

  const run = async () => {
    while (waiting.length > 0) {
      [underWay, waiting] = [waiting, []];
      await flushOnce();
      const flushed = underWay;
      underWay = [];
      for (const waiter of flushed) waiter.done();
    }
    running = undefined;
  };

  const fault = () => failed ?? overdue;
  return {
    wait(waiter) {
      const refusal = fault();
      if (refusal) return waiter.fail(refusedBy(refusal));
      waiting.push(waiter);
      running ??= run();
    },
    fault,
    failure: () => failed,
    fail,
    restored(past) {
      if (failed === past) failed = undefined;
    },
    idle: () => running ?? Promise.resolve(),
  };
}

export function refusedBy(fault: FlushFault) {
  return unavailable(fault.message, { cause: fault, retryAfterSeconds: 5 });
}

/**
 * The log of an open database, opened once. Never open the database file itself beside SQLite: closing any descriptor of it
 * ends the locks that SQLite has on it in this process (https://sqlite.org/howtocorrupt.html, 2.2). The log has none.
 */
export async function openLog(file: string): Promise<{ sync(): Promise<void>; close(): Promise<void> }> {
  const log: FileHandle = await open(`${file}-wal`, constants.O_RDWR);
  return {
    // On macOS, libuv uses F_FULLFSYNC.
    sync: () =>
      new Promise((resolve, reject) => fdatasync(log.fd, (error) => (error === null ? resolve() : reject(error)))),
    close: () => log.close(),
  };
}
