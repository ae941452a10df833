/** Audit entries that no request waits for: queued, written again while the storage is down, and bounded. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createWriteQueue } from '../../shared/storage/write-queue.ts';
import { createCollapse } from './collapse.ts';
import type { AuditEntry, AuditRecord } from './kinds.ts';
import type { AuditTrail } from './trail.ts';

export interface AuditNotes {
  /** Queues an entry. Never throws. An action that must not happen unrecorded awaits `AuditTrail.append` instead. */
  note(entry: AuditEntry): void;
  /** Resolves once every entry is stored, or after a few seconds. */
  settle(): Promise<void>;
}

/** Entries of one write: those of one request, and of others in the same moment. */
const MAX_TOGETHER = 20;

/**
 * @param parts `onStored`: called with the record of each entry, in the async context of its request. `lost`: called with the
 *   number of entries that could not be stored
 */
export function createAuditNotes(parts: {
  trail: Pick<AuditTrail, 'appendAll'>;
  clock: () => number;
  onStored?: (record: AuditRecord) => void;
  lost: (count: number) => void;
}): AuditNotes {
  const { trail, clock, onStored, lost } = parts;
  const queue = createWriteQueue({ onLost: lost });
  let open: Parameters<AuditTrail['appendAll']>[0][number][] | undefined;

  const keep = (entry: AuditEntry, at: number): void => {
    const dated = { entry, at, stored: onStored && AsyncLocalStorage.bind(onStored) };
    if (open) open.push(dated);
    else {
      const together = [dated];
      open = together;
      const write = () => {
        if (open === together) open = undefined;
        return trail.appendAll(together);
      };
      if (!queue.add(write, () => together.length)) open = undefined;
    }
    if (open?.length === MAX_TOGETHER) open = undefined;
  };

  const collapse = createCollapse(clock, keep);
  return {
    note: collapse.note,
    async settle() {
      collapse.flush();
      await queue.close();
    },
  };
}
