/** Audit entries that no request waits for: queued, written again while the storage is down, and bounded. */
import { createWriteQueue } from '../storage/write-queue.ts';
import { createCollapse } from './collapse.ts';
import type { AuditTrail } from './trail.ts';

export type AuditNotes = ReturnType<typeof createAuditNotes>;

/** @param parts `lost`: called with the number of entries that could not be stored */
export function createAuditNotes(parts: {
  trail: Pick<AuditTrail, 'append'>;
  clock: () => number;
  lost: (count: number) => void;
}) {
  const { trail, clock, lost } = parts;
  const queue = createWriteQueue({ lost });
  const collapse = createCollapse(clock, (entry, at) => queue.add(() => trail.append(entry, at)));
  return {
    /** Queues an entry. Never throws. An action that must not happen unrecorded awaits `AuditTrail.append` instead. */
    note: collapse.note,
    /** Resolves once every entry is stored, or after a few seconds. */
    async settle(): Promise<void> {
      collapse.flush();
      await queue.close();
    },
  };
}
