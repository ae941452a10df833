/** R128: a storage that lost its data is not backed up to the folder that has backups with users. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { runCommand } from '../../support/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-last-backup-'));
const backupFolder = mkdtempSync(join(folder, 'backups-'));
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
  await signIn(site);
});
afterAll(async () => {
  await site.close();
  rmSync(folder, { recursive: true });
});

let backupCount = 0;
/** Backs up the storage in `dataDirectory`. The files are numbered in the order of the calls. */
async function backUp(dataDirectory: string, targetFolder: string, ...options: string[]) {
  backupCount += 1;
  const file = join(targetFolder, `${backupCount}.backup`);
  const { status, stderr } = await runCommand(['backup', file, ...options], { ...site.env, DATA_DIR: dataDirectory });
  expect(existsSync(file)).toBe(status === 0);
  return { status, stderr };
}

/** Creates a storage without users, by a start. @returns its folder */
async function createEmptyStorage(): Promise<string> {
  const dataDirectory = mkdtempSync(join(folder, 'data-'));
  const env = { DATA_DIR: dataDirectory, ENCRYPTION_KEYS: site.env.ENCRYPTION_KEYS ?? '' };
  const otherSite = await startSite({ env });
  await otherSite.close();
  return dataDirectory;
}

test('R128 allows a first backup, one of the same storage, and those of a storage without users', async () => {
  const emptyStorage = await createEmptyStorage();
  const folderOfEmptyBackups = mkdtempSync(join(folder, 'none-'));
  for (const [dataDirectory, targetFolder] of [
    [site.dataDirectory, backupFolder],
    [site.dataDirectory, backupFolder],
    [emptyStorage, folderOfEmptyBackups],
    [await createEmptyStorage(), folderOfEmptyBackups],
  ] as const)
    expect(await backUp(dataDirectory, targetFolder)).toEqual({ status: 0, stderr: '' });
});

test('R128 refuses a storage without users if the last backup has users, unless --new-storage is set', async () => {
  const emptyStorage = await createEmptyStorage();
  const refused = await backUp(emptyStorage, backupFolder);
  expect(refused.status).toBe(1);
  expect(refused.stderr).toMatch(/is not the storage of the last backup, .*2\.backup of .*--new-storage/);
  expect((await backUp(emptyStorage, backupFolder, '--new-storage')).status).toBe(0);
  // The last backup is now of this storage.
  expect((await backUp(emptyStorage, backupFolder)).status).toBe(0);
});

test('R128 refuses a restored storage as a different one, although it has users', async () => {
  const ownBackups = mkdtempSync(join(folder, 'own-'));
  const restoredStorage = join(folder, 'restored');
  expect((await backUp(site.dataDirectory, ownBackups)).status).toBe(0);
  const file = join(ownBackups, `${backupCount}.backup`);
  expect((await runCommand(['restore', file], { ...site.env, DATA_DIR: restoredStorage })).status).toBe(0);

  expect((await backUp(restoredStorage, ownBackups)).status).toBe(1);
  expect((await backUp(restoredStorage, ownBackups, '--new-storage')).status).toBe(0);
});
