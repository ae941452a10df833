/** A bounded queue for writes that no request waits for. Failed writes are retried. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

/** Writes within this period are sent together: a single sign-in causes several. */
const BATCH_MS = 20;
const MAX_QUEUED = 5_000;
const MAX_CONCURRENT = 50;
const RETRY_MS = 500;
const CLOSE_MS = 3_000;

interface QueuedWrite {
  write: () => Promise<unknown>;
  size: () => number;
}

export interface WriteQueue {
  /**
   * Queues a write. Never throws. A failed write is repeated, so it may be applied twice.
   * @param size returns how many writes to count if this one is lost; default 1
   * @returns false if the write was dropped
   */
  add(write: () => Promise<unknown>, size?: () => number): boolean;
  /** Does the queued writes now, and resolves once they are done. */
  settle(): Promise<void>;
  /** Does the remaining writes, for at most a few seconds. */
  close(): Promise<void>;
}

/** @param parts `onLost`: called with the number of writes that were dropped */
export function createWriteQueue({ onLost }: { onLost: (count: number) => void }): WriteQueue {
  const queue: QueuedWrite[] = [];
  let underWay: readonly QueuedWrite[] = [];
  let worker: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosing = false;
  let isClosed = false;

  const writeAll = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.splice(0, MAX_CONCURRENT);
      underWay = batch;
      const results = await Promise.allSettled(batch.map(({ write }) => write()));
      underWay = [];
      const failedWrites = batch.filter((_write, index) => results[index]?.status === 'rejected');
      if (failedWrites.length === 0) continue;
      if (isClosed) {
        onLost(sizeOf(failedWrites));
        continue;
      }
      queue.unshift(...failedWrites);
      if (isClosing) return;
      await sleep(RETRY_MS);
    }
  };

  const work = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    worker ??= writeAll().finally(() => {
      worker = undefined;
      if (queue.length > 0 && !isClosing) void work();
    });
    return worker;
  };

  return {
    add(write, size = () => 1) {
      if (queue.length >= MAX_QUEUED) {
        onLost(size());
        return false;
      }
      // Keeps the async context of the request, so that log lines name the request.
      queue.push({ write: AsyncLocalStorage.bind(write), size });
      if (isClosing) void work();
      else timer ??= setTimeout(work, BATCH_MS);
      return true;
    },
    settle: work,
    async close() {
      isClosing = true;
      await Promise.race([work(), sleep(CLOSE_MS, undefined, { ref: false })]);
      const remaining = sizeOf([...queue, ...underWay]);
      if (remaining > 0) onLost(remaining);
      isClosed = true;
    },
  };
}

function sizeOf(writes: readonly QueuedWrite[]): number {
  return writes.reduce((sum, { size }) => sum + size(), 0);
}
