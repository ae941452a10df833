/** Audit entries for the actions of an operator on the command line. */

import type { Store } from '../../shared/storage/store.ts';
import { auditChange } from '../audit/audit-change.ts';
import type { AuditEntry } from '../audit/kinds.ts';
import { type AuditTrail, createAuditTrail } from '../audit/trail.ts';

type OperatorEntry = Pick<AuditEntry, 'event' | 'facts' | 'target' | 'userId' | 'outcome' | 'code'>;

const OPERATOR = { kind: 'operator' } as const;

export function operatorTrail(store: Store): AuditTrail {
  return createAuditTrail({ store, clock: Date.now });
}

export async function auditOperator(store: Store, entry: OperatorEntry): Promise<void> {
  await operatorTrail(store).append({ ...entry, actor: OPERATOR });
}

/** Writes the entries, then makes the change. If it fails, writes a second entry for each. */
export function auditedByOperator<T>(
  store: Store,
  entries: readonly OperatorEntry[],
  change: () => Promise<T>,
): Promise<T> {
  const trail = operatorTrail(store);
  // The terminal shows the failure, even if the second entry cannot be stored.
  const audit = { trail, note: () => undefined };
  return entries.reduceRight((work, entry) => () => auditChange(audit, { ...entry, actor: OPERATOR }, work), change)();
}
