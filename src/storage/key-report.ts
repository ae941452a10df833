/** The report on the encryption keys, for the server and the commands: which seals how many records, who has it, and whether it can be dropped. */
import { demandedKey, keysInUse } from './key-check.ts';
import { callKeyRoll, type KeyHolder } from './key-roll-call.ts';
import type { Sealer } from './sealed.ts';
import { countSealed, sumOf } from './sealed-records.ts';
import type { Store } from './store.ts';

export interface KeyReport {
  keys: {
    kid: string;
    /** It is the first of ENCRYPTION_KEYS. */
    seals: boolean;
    /** ENCRYPTION_KEYS holds it. */
    held: boolean;
    records: number;
    /** The same by kind of record. */
    kinds: Record<string, number>;
    /** A start without it is not refused. */
    droppable: boolean;
  }[];
  processes: KeyHolder[];
}

/** Looks at every record: seconds where there are many. */
export async function reportKeys({ store, sealer }: { store: Store; sealer: Sealer }): Promise<KeyReport> {
  const [counts, processes] = await Promise.all([countSealed(store, sealer), callKeyRoll(store)]);
  const inUse = await keysInUse(store);
  const demanded = await demandedKey(store, sealer);
  const kids = [...new Set([...sealer.kids, ...inUse, ...counts.keys()])];
  const keys = kids.map((kid) => {
    const seals = kid === sealer.sealingKid;
    const isSealing = seals || processes.some((process) => process.seals === kid);
    const records = sumOf(counts.get(kid));
    // What nobody can open any more, because its key was given up or it is damaged, keeps no key.
    const isNeeded = isSealing || kid === demanded || (inUse.includes(kid) && records > 0);
    const kinds = Object.fromEntries(counts.get(kid) ?? []);
    return { kid, seals, held: sealer.kids.includes(kid), records, kinds, droppable: !isNeeded };
  });
  return { keys, processes };
}
