/**
 * Audit entries that no request waits for: a bounded queue, which retries its writes while the storage is unavailable.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createWriteQueue } from '../../shared/storage/write-queue.ts';
import { createCollapse } from './collapse.ts';
import type { AuditEntry, AuditRecord } from './kinds.ts';
import type { AuditTrail } from './trail.ts';

export interface AuditNotes {
  /**
   * Queues an entry. Never throws. An action that must not happen without an entry awaits `AuditTrail.append` instead.
   */
  note(entry: AuditEntry): void;
  /** Resolves once every entry is stored, or after a few seconds. */
  settle(): Promise<void>;
}

/** The maximum number of entries in one write: those of one request, and of others at the same moment. */
const MAX_BATCH = 20;

/**
 * @param parts `onStored`: called with the record of each entry, in the async context of its request. `onLost`: called
 *   with the number of entries that could not be stored
 */
export function createAuditNotes(parts: {
  trail: Pick<AuditTrail, 'appendAll'>;
  clock: () => number;
  onStored?: (record: AuditRecord) => void;
  onLost: (count: number) => void;
}): AuditNotes {
  const { trail, clock, onStored, onLost } = parts;
  const queue = createWriteQueue({ onLost });
  let openBatch: Parameters<AuditTrail['appendAll']>[0][number][] | undefined;

  const enqueue = (entry: AuditEntry, at: number): void => {
    const dated = { entry, at, stored: onStored && AsyncLocalStorage.bind(onStored) };
    if (openBatch) openBatch.push(dated);
    else {
      const batch = [dated];
      openBatch = batch;
      const write = () => {
        if (openBatch === batch) openBatch = undefined;
        return trail.appendAll(batch);
      };
      if (!queue.add(write, () => batch.length)) openBatch = undefined;
    }
    if (openBatch?.length === MAX_BATCH) openBatch = undefined;
  };

  const collapse = createCollapse(clock, enqueue);
  return {
    note: collapse.note,
    async settle() {
      collapse.flush();
      await queue.close();
    },
  };
}
