/** Checks a whole backup file. */
import { statSync } from 'node:fs';
import type { Sealer } from '../../shared/storage/sealed.ts';
import { type ReadBackup, readBackup } from './backup-file.ts';
import { createBackupKeys } from './restore-keys.ts';
import { type Terminal, withProgress } from './terminal.ts';

/**
 * Reads a whole backup and checks that it is complete, unaltered, and sealed with available keys. Writes nothing.
 * @param sealer if undefined, neither the seal nor the keys are checked
 * @param lostKeys ids of keys that may be missing
 * @throws AppError that describes the fault of the file, or names the missing keys
 */
export async function checkBackup(
  terminal: Terminal,
  file: string,
  { sealer, lostKeys = [] }: { sealer: Sealer | undefined; lostKeys?: readonly string[] },
): Promise<ReadBackup> {
  const keys = sealer && createBackupKeys(sealer);
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const backup = await withProgress(terminal, 'Checking', size, async (advance) => {
    const reading = readBackup(file, advance);
    let part = await reading.next();
    for (; !part.done; part = await reading.next()) keys?.scan(part.value);
    return part.value;
  });
  await keys?.check(backup, lostKeys);
  return backup;
}
