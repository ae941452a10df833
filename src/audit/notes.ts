/** Audit entries that no request waits for: queued, kept in order, tried again while the storage is down, and bounded. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCollapse } from './collapse.ts';
import type { AuditTrail } from './trail.ts';

/** Entries within this time are written together: a sign-in alone makes several. */
const BATCH_MS = 20;
const MAX_QUEUED = 5_000;
const MAX_CONCURRENT = 50;
const RETRY_MS = 500;
const SETTLE_MS = 3_000;

export type AuditNotes = ReturnType<typeof createAuditNotes>;

/** @param parts `lost`: called with the number of entries that could not be stored */
export function createAuditNotes(parts: {
  trail: Pick<AuditTrail, 'append'>;
  clock: () => number;
  lost: (count: number) => void;
}) {
  const { trail, clock, lost } = parts;
  /** Each stores its entry in the async context of its own request, which the log line of the entry names. */
  const queue: (() => Promise<void>)[] = [];
  let worker: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closing = false;

  const storeAll = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.splice(0, MAX_CONCURRENT);
      const results = await Promise.allSettled(batch.map((append) => append()));
      const failed = batch.filter((_entry, place) => results[place]?.status === 'rejected');
      if (failed.length === 0) continue;
      queue.unshift(...failed);
      if (closing) return;
      await sleep(RETRY_MS);
    }
  };

  const work = (): void => {
    timer = undefined;
    worker ??= storeAll().finally(() => {
      worker = undefined;
      if (queue.length > 0 && !closing) work();
    });
  };

  const collapse = createCollapse(clock, (entry, at) => {
    if (queue.length >= MAX_QUEUED) return lost(1);
    queue.push(AsyncLocalStorage.bind(() => trail.append(entry, at)));
    if (closing) work();
    else timer ??= setTimeout(work, BATCH_MS);
  });

  return {
    /** Queues an entry. Never throws. An action that must not happen unrecorded awaits `AuditTrail.append` instead. */
    note: collapse.note,
    /** Resolves once every entry is stored, or after a few seconds. */
    async settle(): Promise<void> {
      collapse.flush();
      closing = true;
      clearTimeout(timer);
      work();
      await Promise.race([worker, sleep(SETTLE_MS, undefined, { ref: false })]);
      if (queue.length > 0) lost(queue.length);
    },
  };
}
