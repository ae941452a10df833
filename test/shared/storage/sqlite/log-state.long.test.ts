/** R125: a start refuses database files that do not belong together, and a process notices missing files. */
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StorageRefused } from '../../../../src/shared/storage/refused.ts';
import { StorageReplaced } from '../../../../src/shared/storage/replaced.ts';
import { createSqliteStore, DATABASE_FILE } from '../../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../../src/shared/storage/store.ts';
import { startChild } from '../../../support/child.ts';

let directory: string;
let runningFolder: string;
let copyFolder: string;
const openedStores: Store[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  [runningFolder, copyFolder] = [join(directory, 'running'), join(directory, 'copied')];
  mkdirSync(copyFolder);
});
afterEach(async () => {
  for (const store of openedStores.splice(0)) await store.close();
  await rm(directory, { recursive: true });
});

async function open(folder: string): Promise<Store> {
  const store = await createSqliteStore({ directory: folder });
  openedStores.push(store);
  return store;
}

async function close(): Promise<void> {
  for (const store of openedStores.splice(0)) await store.close();
}

const fileOf = (folder: string) => join(folder, DATABASE_FILE);
const logOf = (folder: string) => `${fileOf(folder)}-wal`;
const put = (store: Store, value: string) => store.write([{ put: 'k', value }]);
const valueIn = async (folder: string) => (await (await open(folder)).get('k'))?.value;
const copyFiles = (suffixes: readonly string[]) => {
  for (const suffix of suffixes) copyFileSync(fileOf(runningFolder) + suffix, fileOf(copyFolder) + suffix);
};
/** Writes records until the log is copied into the file and restarted. */
async function fillUntilCheckpoint(store: Store): Promise<void> {
  const before = generationOf(runningFolder);
  await expect
    .poll(async () => {
      for (let n = 0; n < 20; n += 1) await store.write([{ put: `filler ${n}`, value: 'x'.repeat(50_000) }]);
      return generationOf(runningFolder);
    })
    .not.toBe(before);
}
function generationOf(folder: string): unknown {
  using database = new DatabaseSync(fileOf(folder), { readOnly: true });
  return database.prepare('SELECT hex(generation) AS generation FROM log_state').get()?.generation;
}

describe('R125 a database file that was copied', () => {
  const refusal =
    /was in use, and its log .*-wal is missing.*copied without its log.*Stop every process and copy both.*touch /;

  test('while it was in use, without its log, is refused by every start and not changed', async () => {
    await put(await open(runningFolder), 'last');
    copyFiles(['']);
    const before = readFileSync(fileOf(copyFolder));
    const starts = await Promise.allSettled([
      createSqliteStore({ directory: copyFolder }),
      createSqliteStore({ directory: copyFolder }),
    ]);
    for (const start of starts) {
      expect(start).toMatchObject({ status: 'rejected', reason: expect.any(StorageRefused) });
      expect(start).toMatchObject({ reason: { message: expect.stringMatching(refusal) } });
    }
    expect(readFileSync(fileOf(copyFolder)).equals(before)).toBe(true);
    expect(existsSync(logOf(copyFolder))).toBe(false);
  });

  test('right after the first start or after many writes is refused, too', async () => {
    const store = await open(runningFolder);
    copyFiles(['']);
    await expect(createSqliteStore({ directory: copyFolder })).rejects.toThrow(refusal);

    await fillUntilCheckpoint(store);
    copyFiles(['']);
    await expect(createSqliteStore({ directory: copyFolder })).rejects.toThrow(refusal);
  });

  test('without its log is accepted with an empty log', async () => {
    const store = await open(runningFolder);
    await put(store, 'copied');
    await fillUntilCheckpoint(store);
    await put(store, 'only in the log');
    copyFiles(['']);
    writeFileSync(logOf(copyFolder), '');
    expect(await valueIn(copyFolder)).toBe('copied');
  });

  test('with its log has all data', async () => {
    await put(await open(runningFolder), 'last');
    copyFiles(['', '-wal']);
    expect(await valueIn(copyFolder)).toBe('last');
  });

  test('after it was closed has all data, as a single file or as a folder', async () => {
    await put(await open(runningFolder), 'last');
    await close();
    copyFiles(['']);
    expect(await valueIn(copyFolder)).toBe('last');

    await close();
    rmSync(copyFolder, { recursive: true });
    cpSync(runningFolder, copyFolder, { recursive: true });
    expect(await valueIn(copyFolder)).toBe('last');
  });

  test('while a second process still has it open is refused after the probe of that process', async () => {
    const [first, second] = [await open(runningFolder), await open(runningFolder)];
    await first.close();
    await second.ready();
    await put(second, 'last');
    await expect
      .poll(async () => {
        copyFiles(['']);
        const store = await createSqliteStore({ directory: copyFolder }).catch((error: Error) => error);
        if (!(store instanceof Error)) await store.close();
        return store instanceof Error && store.message;
      })
      .toMatch(refusal);
  });

  test('and killed several times starts with its log and without loss', async () => {
    mkdirSync(runningFolder);
    for (let round = 0; round < 3; round += 1) {
      const child = startChild('store-worker.ts', [runningFolder, 'storm', 'grant', '0']);
      await expect.poll(() => child.lines.length, { interval: 2 }).toBeGreaterThan(5);
      child.kill('SIGKILL');
      const acknowledged = Number((await child.ended).at(-1));
      const record = await (await open(runningFolder)).get('grant:{p}:left');
      expect(Number(record?.value)).toBeGreaterThanOrEqual(acknowledged);
      await close();
    }
  });
});

describe('R125 the log of a database file', () => {
  const refusal = /log .*-wal does not belong to the database .*different times or databases/;

  async function expectRefused(): Promise<void> {
    const before = [readFileSync(fileOf(copyFolder)), readFileSync(logOf(copyFolder))];
    for (let attempt = 0; attempt < 2; attempt += 1)
      await expect(createSqliteStore({ directory: copyFolder })).rejects.toThrow(refusal);
    expect(readFileSync(fileOf(copyFolder)).equals(before[0] ?? Buffer.alloc(0))).toBe(true);
    expect(readFileSync(logOf(copyFolder)).equals(before[1] ?? Buffer.alloc(0))).toBe(true);
  }

  test('from another database is refused, and nothing is changed', async () => {
    await put(await open(runningFolder), 'running');
    const other = join(directory, 'other');
    await put(await open(other), 'other');
    copyFileSync(fileOf(runningFolder), fileOf(copyFolder));
    copyFileSync(logOf(other), logOf(copyFolder));
    await expectRefused();
  });

  test('from a later time is refused, both for a file that was in use and for one that was closed', async () => {
    await put(await open(runningFolder), 'old');
    copyFiles(['']);
    await close();
    copyFileSync(fileOf(runningFolder), `${fileOf(copyFolder)}-old`);
    const store = await open(runningFolder);
    await fillUntilCheckpoint(store);
    await fillUntilCheckpoint(store);
    await put(store, 'new');
    copyFileSync(logOf(runningFolder), logOf(copyFolder));
    await expectRefused();

    renameSync(`${fileOf(copyFolder)}-old`, fileOf(copyFolder));
    await expectRefused();
  });

  test('from an earlier time is refused', async () => {
    const store = await open(runningFolder);
    await put(store, 'old');
    copyFileSync(logOf(runningFolder), logOf(copyFolder));
    await fillUntilCheckpoint(store);
    await fillUntilCheckpoint(store);
    copyFiles(['']);
    await expectRefused();
  });

  test('from the same time is accepted before, between and after checkpoints', async () => {
    const store = await open(runningFolder);
    for (let round = 0; round < 12; round += 1) {
      await put(store, String(round));
      for (let n = 0; n < 8; n += 1) await store.write([{ put: `filler ${n}`, value: 'x'.repeat(100_000) }]);
      // In one turn of the event loop. A checkpoint of the other thread may still run in between, but it only copies
      // more.
      copyFileSync(logOf(runningFolder), logOf(copyFolder));
      const before = generationOf(runningFolder);
      copyFileSync(fileOf(runningFolder), fileOf(copyFolder));
      if (generationOf(runningFolder) !== before) continue;
      const other = await createSqliteStore({ directory: copyFolder });
      await other.close();
      rmSync(copyFolder, { recursive: true });
      mkdirSync(copyFolder);
    }
  });
});

describe('R125 a running process notices that', () => {
  test.each([
    ['the database file was moved away', () => renameSync(fileOf(runningFolder), `${fileOf(runningFolder)}-away`)],
    ['the folder was moved away', () => renameSync(runningFolder, copyFolder)],
    [
      'the folder was replaced by a copy',
      () => {
        cpSync(runningFolder, `${runningFolder}-copy`, { recursive: true });
        renameSync(runningFolder, copyFolder);
        renameSync(`${runningFolder}-copy`, runningFolder);
      },
    ],
    ['the log was deleted', () => rmSync(logOf(runningFolder))],
    ['the index of the log was deleted', () => rmSync(`${fileOf(runningFolder)}-shm`)],
  ])('%s', async (_, change) => {
    const store = await open(runningFolder);
    await store.ready();
    rmSync(copyFolder, { recursive: true });
    change();
    const error = await store.ready().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(StorageReplaced);
    expect(error).toMatchObject({
      code: 'storage_unavailable',
      logDetail: expect.stringContaining(fileOf(runningFolder)),
    });
  });

  test('the database files are back', async () => {
    const store = await open(runningFolder);
    rmSync(copyFolder, { recursive: true });
    renameSync(runningFolder, copyFolder);
    await expect(store.ready()).rejects.toBeInstanceOf(StorageReplaced);

    renameSync(copyFolder, runningFolder);
    await store.ready();
  });
});
