/**
 * Flushes the log of the database outside the main thread. One flush serves all writes that were committed before it
 * began.
 */
import { constants, fdatasync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { unavailable } from '../unavailable.ts';
import { FlushFault } from './faults.ts';

/** A flush that takes longer is reported. */
const SLOW_MS = 500;
const SLOW_REPORT_INTERVAL_MS = 60_000;
/** The time limit for the readiness probe. A caller that arrives during a flush also waits for the next flush. */
const MAX_PROBE_WAIT_MS = 2_000;
/** The time limit for all other writes. A write that exceeds it is rejected, and its result is unknown. */
const MAX_WAIT_MS = 10_000;

export interface FlushObserver {
  /** Called after each flush of the log and each phase of a checkpoint, which flushes up to twice; failures included. */
  flushed(seconds: number, by: 'flush' | 'checkpoint'): void;
  /** Called at most once a minute after a flush, or a phase of a checkpoint, of more than half a second. */
  flushedSlowly(facts: { file: string; milliseconds: number }): void;
}

export interface FlushWaiter {
  done(): void;
  fail(error: unknown): void;
  /** True for the readiness probe, which waits 2 s instead of 10 s. */
  isProbe?: boolean;
}

export interface LogFlush {
  /** Calls `done` once everything that was committed before this call is on disk, or `fail` after at most 10 s. */
  wait(waiter: FlushWaiter): void;
  /** Returns the reason why no write may be acknowledged now; undefined if writes may be acknowledged. */
  fault(): FlushFault | undefined;
  /** Returns the failed flush, after which no write is acknowledged until `restored` is called. */
  failure(): FlushFault | undefined;
  /** Stops all acknowledgements until `restored` is called with this fault. */
  fail(error: unknown): void;
  /**
   * Allows acknowledgements again. To be called once, since this fault, the whole log was copied into the database
   * file, flushed there, and restarted.
   */
  restored(fault: FlushFault): void;
  /** Reports the duration of a phase of a checkpoint, which makes its own flushes. */
  checkpointed(milliseconds: number): void;
  /** Resolves once no write waits for a flush. */
  idle(): Promise<void>;
}

interface TimedWaiter {
  waiter: FlushWaiter;
  timer: NodeJS.Timeout;
}

/** @param parts `file`: the database; `sync`: flushes its log */
export function createLogFlush(parts: {
  file: string;
  sync: () => Promise<void>;
  observer?: FlushObserver | undefined;
}): LogFlush {
  const { file, sync, observer } = parts;
  let waitingForNext = new Set<TimedWaiter>();
  let waitingForCurrent = new Set<TimedWaiter>();
  let running: Promise<void> | undefined;
  let flushFailure: FlushFault | undefined;
  /** Set once a write has waited too long, until the present flush ends: later writes would wait even longer. */
  let overdueFault: FlushFault | undefined;
  let reportedAt = Number.NEGATIVE_INFINITY;

  const settle = (waiters: Iterable<TimedWaiter>, refusal?: FlushFault) => {
    for (const { waiter, timer } of waiters) {
      clearTimeout(timer);
      if (refusal) waiter.fail(refusedBy(refusal));
      else waiter.done();
    }
  };

  /**
   * Rejects all writes that wait. The kernel marks pages that it failed to write as written, so a later flush would
   * succeed without writing them. The log is trusted again after it was completely copied into the database file and
   * restarted.
   */
  const fail = (error: unknown) => {
    flushFailure = new FlushFault(`A flush of ${file}-wal failed`, error);
    const rejectedWaiters = [...waitingForCurrent, ...waitingForNext];
    waitingForCurrent = new Set();
    waitingForNext = new Set();
    settle(rejectedWaiters, flushFailure);
  };

  const startTimer = (waiter: FlushWaiter): TimedWaiter => {
    const limit = waiter.isProbe ? MAX_PROBE_WAIT_MS : MAX_WAIT_MS;
    const expire = () => {
      waitingForNext.delete(timedWaiter);
      waitingForCurrent.delete(timedWaiter);
      const fault = new FlushFault(`A write has waited more than ${limit} ms for flushes of ${file}-wal`);
      if (!waiter.isProbe) overdueFault = fault;
      waiter.fail(refusedBy(fault));
    };
    const timedWaiter = { waiter, timer: setTimeout(expire, limit) };
    return timedWaiter;
  };

  const report = (milliseconds: number, by: 'flush' | 'checkpoint') => {
    observer?.flushed(milliseconds / 1_000, by);
    if (milliseconds < SLOW_MS || performance.now() - reportedAt < SLOW_REPORT_INTERVAL_MS) return;
    reportedAt = performance.now();
    observer?.flushedSlowly({ file, milliseconds: Math.round(milliseconds) });
  };

  const flushOnce = async () => {
    const startedAt = performance.now();
    try {
      await sync();
    } catch (error) {
      fail(error);
    } finally {
      overdueFault = undefined;
      report(performance.now() - startedAt, 'flush');
    }
  };

  const run = async () => {
    while (waitingForNext.size > 0) {
      [waitingForCurrent, waitingForNext] = [waitingForNext, new Set()];
      await flushOnce();
      const flushedWaiters = waitingForCurrent;
      waitingForCurrent = new Set();
      settle(flushedWaiters);
    }
    running = undefined;
  };

  const fault = () => flushFailure ?? overdueFault;
  return {
    wait(waiter) {
      const refusal = fault();
      if (refusal) return waiter.fail(refusedBy(refusal));
      waitingForNext.add(startTimer(waiter));
      running ??= run();
    },
    fault,
    failure: () => flushFailure,
    fail,
    restored(earlierFault) {
      if (flushFailure === earlierFault) flushFailure = undefined;
    },
    checkpointed: (milliseconds) => report(milliseconds, 'checkpoint'),
    idle: () => running ?? Promise.resolve(),
  };
}

export function refusedBy(fault: FlushFault) {
  return unavailable(fault.message, { cause: fault, retryAfterSeconds: 5 });
}

/**
 * Opens the log of an open database, to flush it. Never open the database file itself in this way: closing any
 * descriptor of it ends the locks that SQLite has on it in this process (https://sqlite.org/howtocorrupt.html, 2.2).
 * The log has no locks.
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
