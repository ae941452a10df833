/**
 * Compares the storage with the last backup in a folder, so that a backup of a lost storage does not replace good ones.
 */
import { open, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError } from '../../shared/errors.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { type BackupSummary, readSummary } from './backup-file.ts';

/**
 * @param file the new backup
 * @throws AppError `version_conflict` if the last backup in the folder of that file holds users, and the storage is a
 *   different one or has no users
 */
export async function assertFollowsLast(
  file: string,
  { store, identity }: { store: Store; identity: string },
): Promise<void> {
  const last = await findLastBackup(dirname(file));
  if (!last || !holdsUsers(last)) return;
  const isOtherStorage = last.storage !== undefined && last.storage !== identity;
  if (!isOtherStorage && !(await isWithoutUsers(store))) return;
  const difference = isOtherStorage ? 'is not the storage of' : 'has no users, unlike';
  throw new AppError('version_conflict', {
    detail:
      `The storage ${difference} the last backup, ${last.file} of ${last.createdAt}. If its data was lost, restore that backup. If it was ` +
      'restored, moved or started empty on purpose, run this once with --new-storage.',
  });
}

const holdsUsers = ({ kinds }: BackupSummary): boolean => (kinds.user ?? 0) + (kinds.grant ?? 0) > 0;

async function isWithoutUsers(store: Store): Promise<boolean> {
  const counts = await Promise.all([keys.users, keys.connections('all')].map((index) => store.count(index)));
  return counts.every((count) => count === 0);
}

type FoundBackup = BackupSummary & { file: string };

/** Returns undefined if there is no readable backup. */
async function findLastBackup(folder: string): Promise<FoundBackup | undefined> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile() && !entry.name.endsWith('.part'));
  let last: FoundBackup | undefined;
  for (const { name } of files) {
    const file = join(folder, name);
    const summary = await summaryOf(file).catch(() => undefined);
    if (summary && (!last || Date.parse(summary.createdAt) > Date.parse(last.createdAt))) last = { ...summary, file };
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
