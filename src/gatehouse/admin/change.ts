/** Audited changes by the administrator or the admin token of a request. */
import type { Request } from 'express';
import { actorOf } from '../../shared/sessions/actor.ts';
import { auditChange, type ChangeTrail } from '../audit/audit-change.ts';
import type { AuditEntry } from '../audit/kinds.ts';

export type AuditedFacts = Pick<AuditEntry, 'event' | 'target' | 'userId' | 'facts'>;

/** Calls `auditChange` with the actor of the request. */
export function audited<T>(
  audit: ChangeTrail,
  req: Request,
  facts: AuditedFacts,
  change: () => Promise<T>,
): Promise<T> {
  return auditChange(audit, { ...facts, ...actorOf(req) }, change);
}
