/** Audit entries for what an operator does by commands. */
import type { AuditEntry } from '../audit/kinds.ts';
import { type AuditTrail, createAuditTrail } from '../audit/trail.ts';
import type { Store } from '../storage/store.ts';

export function operatorTrail(store: Store): AuditTrail {
  return createAuditTrail({ store, clock: Date.now });
}

export async function auditOperator(
  store: Store,
  entry: Pick<AuditEntry, 'event' | 'facts' | 'target' | 'userId' | 'outcome'>,
): Promise<void> {
  await operatorTrail(store).append({ ...entry, actor: { kind: 'operator' } });
}
