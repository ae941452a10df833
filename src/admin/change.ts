/** Audited changes (R88): the entry in the audit trail is written before the change, and a change that fails gets one too. */
import type { Request } from 'express';
import type { AuditEntry } from '../audit/kinds.ts';
import type { AuditTrail } from '../audit/trail.ts';
import { AppError } from '../errors.ts';
import { actorOf } from '../sessions/actor.ts';

export type AuditedFacts = Pick<AuditEntry, 'event' | 'target' | 'userId' | 'facts'>;

/**
 * Writes the entry, then makes the change: if the trail cannot be written, nothing changes. If the change then fails, such
 * as by a version conflict, a second entry says so.
 */
export async function audited<T>(
  trail: Pick<AuditTrail, 'append'>,
  req: Request,
  facts: AuditedFacts,
  change: () => Promise<T>,
): Promise<T> {
  const entry = { ...facts, ...actorOf(req) };
  await trail.append(entry);
  try {
    return await change();
  } catch (error) {
    const outcome = error instanceof AppError ? `not_done: ${error.code}` : 'not_done: internal';
    // The first entry stands; the caller gets the error of the change.
    await trail.append({ ...entry, outcome }).catch(() => undefined);
    throw error;
  }
}
