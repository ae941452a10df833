/** Writes that no request waits for: queued, repeated while the storage fails, and bounded. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

/** Writes within this time are made together: a sign-in alone causes several. */
const BATCH_MS = 20;
const MAX_QUEUED = 5_000;
const MAX_CONCURRENT = 50;
const RETRY_MS = 500;
const CLOSE_MS = 3_000;

interface Queued {
  write: () => Promise<unknown>;
  size: () => number;
}

export interface WriteQueue {
  /**
   * Queues a write. Never throws. It is made again if it fails, and then may be made twice, because the result of a failed
   * write is unknown.
   * @param size how much is lost with it, asked at that moment; default 1
   * @returns false if it was dropped
   */
  add(write: () => Promise<unknown>, size?: () => number): boolean;
  /** Resolves once every write is made. */
  settle(): Promise<void>;
  /** Makes the remaining writes, in at most a few seconds. */
  close(): Promise<void>;
}

/** @param parts `lost`: called with the number of writes that were not made */
export function createWriteQueue({ lost }: { lost: (count: number) => void }): WriteQueue {
  const queue: Queued[] = [];
  let underWay: readonly Queued[] = [];
  let worker: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closing = false;
  let closed = false;

  const writeAll = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.splice(0, MAX_CONCURRENT);
      underWay = batch;
      const results = await Promise.allSettled(batch.map(({ write }) => write()));
      underWay = [];
      const failed = batch.filter((_write, place) => results[place]?.status === 'rejected');
      if (failed.length === 0) continue;
      if (closed) {
        lost(sizeOf(failed));
        continue;
      }
      queue.unshift(...failed);
      if (closing) return;
      await sleep(RETRY_MS);
    }
  };

  const work = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    worker ??= writeAll().finally(() => {
      worker = undefined;
      if (queue.length > 0 && !closing) void work();
    });
    return worker;
  };

  return {
    add(write, size = () => 1) {
      if (queue.length >= MAX_QUEUED) {
        lost(size());
        return false;
      }
      // In the async context of its request, which its log lines name.
      queue.push({ write: AsyncLocalStorage.bind(write), size });
      if (closing) void work();
      else timer ??= setTimeout(work, BATCH_MS);
      return true;
    },
    settle: work,
    async close() {
      closing = true;
      await Promise.race([work(), sleep(CLOSE_MS, undefined, { ref: false })]);
      const left = sizeOf([...queue, ...underWay]);
      if (left > 0) lost(left);
      closed = true;
    },
  };
}

function sizeOf(queued: readonly Queued[]): number {
  return queued.reduce((sum, { size }) => sum + size(), 0);
}
