/** Audited changes (R88): an entry is written before each change, and a second one if the change fails. */
import { AppError } from '../../shared/errors.ts';
import type { Audit } from './audit.ts';
import type { AuditEntry } from './kinds.ts';
import { failedOutcome } from './outcome.ts';

export interface ChangeTrail {
  trail: Pick<Audit['trail'], 'append'>;
  note: Audit['note'];
}

/**
 * Writes the entry, then makes the change: if the entry cannot be written, nothing changes. If the change then fails,
 * for example with a version conflict, a second entry says so. If the storage failed, it says that the result is
 * unknown.
 * @throws the error of the change; AppError `storage_unavailable` says that the change may have been made
 */
export async function auditChange<T>(audit: ChangeTrail, entry: AuditEntry, change: () => Promise<T>): Promise<T> {
  await audit.trail.append(entry);
  try {
    return await change();
  } catch (error) {
    await appendOrNote(audit, { ...entry, ...failedOutcome(error) });
    throw error instanceof AppError && error.code === 'storage_unavailable' ? withUnknownResult(error) : error;
  }
}

function withUnknownResult(error: AppError): AppError {
  if (error.detail !== undefined) return error;
  const { logDetail, retryAfterSeconds, cause = error } = error;
  return new AppError('storage_unavailable', {
    detail: 'The storage did not respond in time, and the change may have been made: check before you repeat it.',
    logDetail,
    retryAfterSeconds,
    cause,
    words: { advice: 'Wait a moment, and check whether the change was made before you repeat it.' },
  });
}

/** For an action that has already happened: writes its entry, or queues it if the storage fails. Never rejects. */
export async function appendOrNote({ trail, note }: ChangeTrail, entry: AuditEntry): Promise<void> {
  await trail.append(entry).catch(() => note(entry));
}
