/** A report on the encryption keys: how many records each seals, which processes use it, and whether it can be dropped. */

import { isoOrNull } from '../time.ts';
import { firstUses, keysReplaced } from './key-check.ts';
import { callKeyRoll, type KeyHolder } from './key-roll-call.ts';
import type { Sealer } from './sealed.ts';
import { countSealed, sumOf } from './sealed-records.ts';
import type { Store } from './store.ts';

interface Storage {
  store: Store;
  sealer: Sealer;
}

export interface ListedKey {
  kid: string;
  /** It is the first of ENCRYPTION_KEYS. */
  seals: boolean;
  /** ENCRYPTION_KEYS holds it. */
  held: boolean;
  /** A start without it is not refused. */
  droppable: boolean;
  /** No process has sealed with it yet: a new key that is not the first one. */
  unused: boolean;
  /** When a process first sealed with it (ISO 8601); null if none has, or once it was replaced. */
  firstUsedAt: string | null;
}

export interface KeyReport {
  /** `records`: how many the key seals. `kinds`: the number of records of each kind. */
  keys: (ListedKey & { records: number; kinds: Record<string, number> })[];
  processes: KeyHolder[];
}

/** Reads every record, which takes a minute for a million of them. */
export async function reportKeys(storage: Storage): Promise<KeyReport> {
  const [counts, processes] = await Promise.all([
    countSealed(storage.store, storage.sealer),
    callKeyRoll(storage.store),
  ]);
  const keys = (await listKeys(storage, [...counts.keys()])).map((key) => ({
    ...key,
    records: sumOf(counts.get(key.kid)),
    kinds: Object.fromEntries(counts.get(key.kid) ?? []),
  }));
  return { keys, processes };
}

/** The keys that are held or in use, and these others. Reads no record. */
export async function listKeys({ store, sealer }: Storage, others: readonly string[] = []): Promise<ListedKey[]> {
  const [inUse, replaced] = await Promise.all([firstUses(store), keysReplaced(store)]);
  return [...new Set([...sealer.kids, ...inUse.keys(), ...others])].map((kid) => ({
    kid,
    seals: kid === sealer.sealingKid,
    held: sealer.kids.includes(kid),
    droppable: !inUse.has(kid),
    unused: sealer.kids.includes(kid) && !inUse.has(kid) && !replaced.includes(kid),
    firstUsedAt: isoOrNull(inUse.get(kid)),
  }));
}
