/** Owns the entries in the audit trail of what an operator does from a terminal. */
import type { AuditEntry } from '../audit/kinds.ts';
import { type AuditTrail, createAuditTrail } from '../audit/trail.ts';
import { scrubCardNumbers } from '../bin/bin.ts';
import type { Store } from '../storage/store.ts';

export function operatorTrail(store: Store): AuditTrail {
  return createAuditTrail({ store, clock: Date.now, scrub: scrubCardNumbers });
}

export async function noteByOperator(
  store: Store,
  entry: Pick<AuditEntry, 'event' | 'facts' | 'target'>,
): Promise<void> {
  await operatorTrail(store).append({ ...entry, actor: { kind: 'operator' } });
}
