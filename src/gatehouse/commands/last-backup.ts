/** Compares the storage with the last backup in a folder: a backup of a lost storage must not replace the good ones. */
import { open, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError } from '../../shared/errors.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { type BackupSummary, readSummary } from './backup-file.ts';

/**
 * @param file the backup that is to be made
 * @throws AppError `version_conflict` if the last backup beside that file holds users, and the storage is another one or
 *   holds none
 */
export async function assertFollowsLast(
  file: string,
  { store, identity }: { store: Store; identity: string },
): Promise<void> {
  const last = await lastBackup(dirname(file));
  if (!last || !holdsUsers(last)) return;
  const isOther = last.storage !== undefined && last.storage !== identity;
  if (!isOther && !(await isWithoutUsers(store))) return;
  const what = isOther ? 'is another storage than that of' : 'holds no user, unlike';
  throw new AppError('version_conflict', {
    detail:
      `The storage ${what} the last backup, ${last.file}, made ${last.made}. If its data was lost, restore that backup. If it was ` +
      'restored or moved, or is to begin anew, run this once with --new-storage.',
  });
}

const holdsUsers = ({ kinds }: BackupSummary): boolean => (kinds.user ?? 0) + (kinds.grant ?? 0) > 0;

async function isWithoutUsers(store: Store): Promise<boolean> {
  const counts = await Promise.all([keys.users, keys.connections('all')].map((index) => store.count(index)));
  return counts.every((count) => count === 0);
}

type FoundBackup = BackupSummary & { file: string };

/** Undefined if there is none that can be read. */
async function lastBackup(folder: string): Promise<FoundBackup | undefined> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile() && !entry.name.endsWith('.part'));
  let last: FoundBackup | undefined;
  for (const { name } of files) {
    const file = join(folder, name);
    const found = await summaryOf(file).catch(() => undefined);
    if (found && (!last || Date.parse(found.made) > Date.parse(last.made))) last = { ...found, file };
  }
  return last;
}

async function summaryOf(file: string): Promise<BackupSummary | undefined> {
  const handle = await open(file, 'r');
  try {
    return await readSummary(handle);
  } finally {
    await handle.close();
  }
}
