/** R128: a storage that lost its data is not backed up to the folder of the good backups. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { runCommand } from '../../support/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-last-backup-'));
const backups = mkdtempSync(join(folder, 'backups-'));
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
  await signIn(site);
});
afterAll(async () => {
  await site.close();
  rmSync(folder, { recursive: true });
});

let made = 0;
/** Of the storage in that folder; the number of the file says when. */
async function backUp(data: string, into: string, ...options: string[]) {
  made += 1;
  const file = join(into, `${made}.backup`);
  const { status, stderr } = await runCommand(['backup', file, ...options], { ...site.env, DATA_DIR: data });
  expect(existsSync(file)).toBe(status === 0);
  return { status, stderr };
}

/** A storage that a start has just made. */
async function newData(): Promise<string> {
  const data = mkdtempSync(join(folder, 'data-'));
  const other = await startSite({ env: { DATA_DIR: data, ENCRYPTION_KEYS: site.env.ENCRYPTION_KEYS ?? '' } });
  await other.close();
  return data;
}

test('R128 allows a first backup, one of the same storage, and those of a storage without users', async () => {
  const data = await newData();
  const none = mkdtempSync(join(folder, 'none-'));
  for (const [from, into] of [
    [site.dataDirectory, backups],
    [site.dataDirectory, backups],
    [data, none],
    [await newData(), none],
  ] as const)
    expect(await backUp(from, into)).toEqual({ status: 0, stderr: '' });
});

test('R128 refuses a storage without users if the last backup has users, unless --new-storage is set', async () => {
  const data = await newData();
  const refused = await backUp(data, backups);
  expect(refused.status).toBe(1);
  expect(refused.stderr).toMatch(/is not the storage of the last backup, .*2\.backup of .*--new-storage/);
  expect((await backUp(data, backups, '--new-storage')).status).toBe(0);
  // It is now the last backup.
  expect((await backUp(data, backups)).status).toBe(0);
});

test('R128 refuses a restored storage as a different one, although it has users', async () => {
  const [good, into] = [mkdtempSync(join(folder, 'good-')), join(folder, 'restored')];
  expect((await backUp(site.dataDirectory, good)).status).toBe(0);
  const restored = { ...site.env, DATA_DIR: into };
  expect((await runCommand(['restore', join(good, `${made}.backup`)], restored)).status).toBe(0);
  expect((await backUp(into, good)).status).toBe(1);
  expect((await backUp(into, good, '--new-storage')).status).toBe(0);
});
