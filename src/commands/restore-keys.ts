/** Owns the judgement, before anything is written, whether ENCRYPTION_KEYS opens what a backup holds sealed. */
import { AppError } from '../errors.ts';
import { keys, kindOf } from '../storage/keys.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import { kidsIn } from '../storage/sealed-records.ts';
import type { KeptItem } from '../storage/store.ts';
import type { ReadBackup } from './backup-file.ts';

export interface BackupKeys {
  look(items: readonly KeptItem[]): void;
  /**
   * @param lost ids of keys that are lost for good: what they seal is restored and cannot be read
   * @throws AppError that names the keys
   */
  check(backup: ReadBackup, lost: readonly string[]): Promise<void>;
}

export function createBackupKeys(sealer: Sealer): BackupKeys {
  /** How many records each key seals. */
  const sealed = new Map<string, number>();
  /** Those that Gatehouse still demands: what others seal was given up before the backup. */
  const demanded = new Set<string>();
  const proofs = new Map<string, string>();

  return {
    look(items) {
      for (const item of items) {
        if ('index' in item && item.index === keys.keysInUse) demanded.add(item.member);
        if (!('record' in item)) continue;
        for (const kid of kidsIn(sealer, { ...item, key: item.record })) sealed.set(kid, (sealed.get(kid) ?? 0) + 1);
        if (kindOf(item.record) === keys.keyCheck) proofs.set(item.record, item.value);
      }
    },

    async check({ end }, lost) {
      const needed = new Set([...sealed.keys()].filter((kid) => demanded.has(kid)));
      for (const value of [proofs.get(keys.keyCheck), end.seal]) needed.add(sealer.kidOf(value ?? '') ?? '');
      needed.delete('');
      const missing = [...needed].filter((kid) => !sealer.kids.includes(kid) && !lost.includes(kid));
      if (missing.length > 0) throw refused(missing.map((kid) => `"${kid}" (seals ${sealed.get(kid) ?? 0} records)`));
      for (const [owner, value] of proofs) await prove(value, owner);
      const digest = await prove(end.seal, keys.backupSeal);
      if (digest !== undefined && digest !== end.sha256)
        throw new AppError('invalid_request', { detail: 'The backup was altered: its seal is of another digest.' });
    },
  };

  /** The content, or undefined where that key is not at hand and not needed. */
  async function prove(value: string, owner: string): Promise<string | undefined> {
    const kid = sealer.kidOf(value);
    if (kid !== undefined && !sealer.kids.includes(kid)) return undefined;
    try {
      return await sealer.open(value, owner);
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      const detail =
        kid === undefined
          ? 'The backup was altered: what proves its keys is damaged.'
          : `The key "${kid}" of ENCRYPTION_KEYS is not the key of that id that sealed the backup, or the backup was altered. Put the key in that was used when it was made.`;
      throw new AppError('invalid_request', { detail });
    }
  }
}

function refused(kids: readonly string[]): AppError {
  const detail =
    `ENCRYPTION_KEYS does not hold ${kids.join(', ')}, with which the backup is sealed. Put the keys in that were used when it was ` +
    'made, anywhere in the list. One that is lost for good is named with --lost-key.';
  return new AppError('invalid_request', { detail });
}
