/** Audited changes (R88): the entry in the audit trail is written before the change, and a change that fails gets a second one. */
import { AppError } from '../../shared/errors.ts';
import type { Audit } from './audit.ts';
import type { AuditEntry } from './kinds.ts';
import { failedOutcome } from './outcome.ts';

export interface ChangeTrail {
  trail: Pick<Audit['trail'], 'append'>;
  note: Audit['note'];
}

/**
 * Writes the entry, then makes the change: if the trail cannot be written, nothing changes. If the change then fails, such
 * as by a version conflict, a second entry says so; where the storage failed, it says that the result is unknown.
 * @throws what the change throws; AppError `storage_unavailable` says that the change may have been made
 */
export async function auditChange<T>(audit: ChangeTrail, entry: AuditEntry, change: () => Promise<T>): Promise<T> {
  await audit.trail.append(entry);
  try {
    return await change();
  } catch (error) {
    await appendOrNote(audit, { ...entry, outcome: failedOutcome(error) });
    throw error instanceof AppError && error.code === 'storage_unavailable' ? perhapsMade(error) : error;
  }
}

function perhapsMade(error: AppError): AppError {
  if (error.detail !== undefined) return error;
  const { logDetail, retryAfterSeconds, cause = error } = error;
  return new AppError('storage_unavailable', {
    detail: 'The storage did not respond in time, and the change may have been made: look before you repeat it.',
    logDetail,
    retryAfterSeconds,
    cause,
    words: { nextStep: 'Wait a moment, and look whether the change was made before you repeat it.' },
  });
}

/** For what has happened, whatever becomes of its entry: written now, or queued if the storage fails. Never rejects. */
export async function appendOrNote({ trail, note }: ChangeTrail, entry: AuditEntry): Promise<void> {
  await trail.append(entry).catch(() => note(entry));
}
