/** A report on the encryption keys: how many records each seals, which processes use it, and whether it can be dropped. */
import { keysInUse } from './key-check.ts';
import { callKeyRoll } from './key-roll-call.ts';
import type { Sealer } from './sealed.ts';
import { countSealed, sumOf } from './sealed-records.ts';
import type { Store } from './store.ts';

export type KeyReport = Awaited<ReturnType<typeof reportKeys>>;

/** Reads every record, which takes seconds if there are many. */
export async function reportKeys({ store, sealer }: { store: Store; sealer: Sealer }) {
  const [counts, processes] = await Promise.all([countSealed(store, sealer), callKeyRoll(store)]);
  const inUse = await keysInUse(store);
  const kids = [...new Set([...sealer.kids, ...inUse, ...counts.keys()])];
  const keys = kids.map((kid) => ({
    kid,
    /** It is the first of ENCRYPTION_KEYS. */
    seals: kid === sealer.sealingKid,
    /** ENCRYPTION_KEYS holds it. */
    held: sealer.kids.includes(kid),
    records: sumOf(counts.get(kid)),
    /** The number of records of each kind. */
    kinds: Object.fromEntries(counts.get(kid) ?? []),
    /** A start without it is not refused. */
    droppable: !inUse.includes(kid),
  }));
  return { keys, processes };
}
