/** Creates the audit trail, its queue of entries, and the tallies of the overview. */
import type { EventSource } from '../../shared/observability/events.ts';
import type { ScheduledTask } from '../../shared/storage/scheduled-task.ts';
import type { Store } from '../../shared/storage/store.ts';
import { HOUR_MS } from '../../shared/time.ts';
import { auditedEvents } from './audited-events.ts';
import type { AuditRecord } from './kinds.ts';
import { type AuditNotes, createAuditNotes } from './notes.ts';
import { createTallies, type Tallies, talliedEvents } from './tallies.ts';
import { type AuditTrail, createAuditTrail } from './trail.ts';

export interface Audit {
  trail: AuditTrail;
  note: AuditNotes['note'];
  tallies: Tallies;
  scheduledTasks: readonly ScheduledTask[];
  /** Stores the queued entries and counts. */
  close(): Promise<void>;
}

/** @param parts `wasEmpty`: the store was empty when this process started. @throws AppError `storage_unavailable` */
export async function createAudit(parts: {
  storage: { store: Store; wasEmpty: boolean };
  events: EventSource;
  days: number;
  clock: () => number;
}): Promise<Audit> {
  const { storage, events, days, clock } = parts;
  const { store } = storage;
  const onStored = (audit: AuditRecord) => events.audited({ audit });
  const trail = createAuditTrail({ store, clock, days, onStored });
  const notes = createAuditNotes({ trail, clock, onStored, onLost: (entries) => events.auditLost({ entries }) });
  const tallies = createTallies({ store, clock, onLost: (counts) => events.countsLost({ kind: 'overview', counts }) });
  events.listen(auditedEvents(notes.note));
  events.listen(talliedEvents(tallies));
  if (storage.wasEmpty) await trail.append({ event: 'storage.found_empty', actor: { kind: 'system' } });
  const scheduledTasks: readonly ScheduledTask[] = [
    { name: 'trim-audit', everyMilliseconds: HOUR_MS, work: trail.trim },
  ];
  return {
    trail,
    note: notes.note,
    tallies,
    scheduledTasks,
    async close() {
      await Promise.all([notes.settle(), tallies.close()]);
    },
  };
}
