/**
 * A report on the encryption keys: how many records each seals, which processes use it, and whether it can be removed.
 */
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
  /** The key is the first of ENCRYPTION_KEYS. */
  encrypts: boolean;
  /** The key is in ENCRYPTION_KEYS. */
  configured: boolean;
  /** A start without the key is not refused. */
  removable: boolean;
  /** No process has sealed with the key yet: it is new and not the first one. */
  unused: boolean;
  /** When a process first sealed with the key (ISO 8601); null if none has, or after it was replaced. */
  firstUsedAt: string | null;
}

export interface KeyReport {
  /** `records`: how many the key seals. `kinds`: the number of records of each kind. */
  encryptionKeys: (ListedKey & { records: number; kinds: Record<string, number> })[];
  processes: KeyHolder[];
}

/** Reports on every key. Reads every record, which takes about a minute for a million records. */
export async function reportKeys(storage: Storage): Promise<KeyReport> {
  const [counts, processes] = await Promise.all([
    countSealed(storage.store, storage.sealer),
    callKeyRoll(storage.store),
  ]);
  const encryptionKeys = (await listKeys(storage, [...counts.keys()])).map((key) => ({
    ...key,
    records: sumOf(counts.get(key.kid)),
    kinds: Object.fromEntries(counts.get(key.kid) ?? []),
  }));
  return { encryptionKeys, processes };
}

/** Lists the keys that are in ENCRYPTION_KEYS or in use, and the additional ones. Reads no record. */
export async function listKeys({ store, sealer }: Storage, additional: readonly string[] = []): Promise<ListedKey[]> {
  const [usedSince, replacedKids] = await Promise.all([firstUses(store), keysReplaced(store)]);
  return [...new Set([...sealer.kids, ...usedSince.keys(), ...additional])].map((kid) => ({
    kid,
    encrypts: kid === sealer.sealingKid,
    configured: sealer.kids.includes(kid),
    removable: !usedSince.has(kid),
    unused: sealer.kids.includes(kid) && !usedSince.has(kid) && !replacedKids.includes(kid),
    firstUsedAt: isoOrNull(usedSince.get(kid)),
  }));
}
