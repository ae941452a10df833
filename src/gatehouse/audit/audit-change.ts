/** Audited changes (R88): the entry in the audit trail is written before the change, and a change that fails gets one too. */
import { AppError } from '../../shared/errors.ts';
import type { Audit } from './audit.ts';
import type { AuditEntry } from './kinds.ts';

export interface ChangeTrail {
  trail: Pick<Audit['trail'], 'append'>;
  note: Audit['note'];
}

/**
 * Writes the entry, then makes the change: if the trail cannot be written, nothing changes. If the change then fails, such
 * as by a version conflict, a second entry says so.
 */
export async function auditChange<T>(audit: ChangeTrail, entry: AuditEntry, change: () => Promise<T>): Promise<T> {
  await audit.trail.append(entry);
  try {
    return await change();
  } catch (error) {
    const outcome = error instanceof AppError ? `not_done: ${error.code}` : 'not_done: internal';
    await appendOrNote(audit, { ...entry, outcome });
    throw error;
  }
}

/** For what has happened, whatever becomes of its entry: written now, or queued if the storage fails. Never rejects. */
export async function appendOrNote({ trail, note }: ChangeTrail, entry: AuditEntry): Promise<void> {
  await trail.append(entry).catch(() => note(entry));
}
