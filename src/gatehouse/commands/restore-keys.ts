/** Before a restore writes anything, checks that ENCRYPTION_KEYS can open the sealed records of the backup. */
import { AppError } from '../../shared/errors.ts';
import { keys, kindOf } from '../../shared/storage/keys.ts';
import { assertReadable } from '../../shared/storage/schema-version.ts';
import { SealError, type Sealer } from '../../shared/storage/sealed.ts';
import { kidsIn } from '../../shared/storage/sealed-records.ts';
import type { CopyItem } from '../../shared/storage/store.ts';
import type { ReadBackup } from './backup-file.ts';

export function createBackupKeys(sealer: Sealer) {
  /** Number of records sealed by each key. */
  const sealed = new Map<string, number>();
  /** Keys in use. The records of other keys were given up before the backup. */
  const inUse = new Set<string>();
  const proofs = new Map<string, string>();

  return {
    /** Records the keys that these items need. */
    scan(items: readonly CopyItem[]): void {
      for (const item of items) {
        if ('index' in item && item.index === keys.keysInUse) inUse.add(item.member);
        if (!('record' in item)) continue;
        for (const kid of kidsIn(sealer, { ...item, key: item.record })) sealed.set(kid, (sealed.get(kid) ?? 0) + 1);
        if (item.record === keys.schema) assertReadable(item.value);
        if (kindOf(item.record) === keys.keyCheck) proofs.set(item.record, item.value);
      }
    },

    /**
     * @param lost ids of lost keys: their records are restored but cannot be opened
     * @throws AppError that names the keys
     */
    async check({ end }: ReadBackup, lost: readonly string[]): Promise<void> {
      const required = new Set([...sealed.keys()].filter((kid) => inUse.has(kid)));
      for (const value of [proofs.get(keys.keyCheck), end.seal]) required.add(sealer.kidOf(value ?? '') ?? '');
      required.delete('');
      const missing = [...required].filter((kid) => !sealer.kids.includes(kid) && !lost.includes(kid));
      if (missing.length > 0) throw refused(missing.map((kid) => `"${kid}" (seals ${sealed.get(kid) ?? 0} records)`));
      for (const [owner, value] of proofs) await prove(value, owner);
      const digest = await prove(end.seal, keys.backupSeal);
      if (digest !== undefined && digest !== end.sha256)
        throw new AppError('invalid_request', {
          detail: 'The backup was altered: its seal does not match its digest.',
        });
    },
  };

  /** Returns the content, or undefined if the key is missing but not required. */
  async function prove(value: string, owner: string): Promise<string | undefined> {
    const kid = sealer.kidOf(value);
    if (kid !== undefined && !sealer.kids.includes(kid)) return undefined;
    try {
      return await sealer.open(value, owner);
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      const detail =
        kid === undefined
          ? 'The backup was altered: the record that proves its keys is damaged.'
          : `The key "${kid}" in ENCRYPTION_KEYS is not the "${kid}" that sealed the backup, or the backup was altered. Use the key from the time of the backup.`;
      throw new AppError('invalid_request', { detail });
    }
  }
}

function refused(kids: readonly string[]): AppError {
  const detail =
    `The backup is sealed with ${kids.join(', ')}, which ENCRYPTION_KEYS does not have. Add the keys from the time of the backup, ` +
    'anywhere in the list. Name a key that is lost with --lost-key.';
  return new AppError('invalid_request', { detail });
}
