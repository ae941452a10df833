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
let running: string;
let copied: string;
const openedStores: Store[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  [running, copied] = [join(directory, 'running'), join(directory, 'copied')];
  mkdirSync(copied);
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
const copy = (suffixes: readonly string[]) => {
  for (const suffix of suffixes) copyFileSync(fileOf(running) + suffix, fileOf(copied) + suffix);
};
/** Writes records until the log is copied into the file and restarted. */
async function fill(store: Store): Promise<void> {
  const before = generationOf(running);
  await expect
    .poll(async () => {
      for (let n = 0; n < 20; n += 1) await store.write([{ put: `filler ${n}`, value: 'x'.repeat(50_000) }]);
      return generationOf(running);
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
    await put(await open(running), 'last');
    copy(['']);
    const before = readFileSync(fileOf(copied));
    const starts = await Promise.allSettled([
      createSqliteStore({ directory: copied }),
      createSqliteStore({ directory: copied }),
    ]);
    for (const start of starts) {
      expect(start).toMatchObject({ status: 'rejected', reason: expect.any(StorageRefused) });
      expect(start).toMatchObject({ reason: { message: expect.stringMatching(refusal) } });
    }
    expect(readFileSync(fileOf(copied)).equals(before)).toBe(true);
    expect(existsSync(logOf(copied))).toBe(false);
  });

  test('right after the first start or after many writes is refused, too', async () => {
    const store = await open(running);
    copy(['']);
    await expect(createSqliteStore({ directory: copied })).rejects.toThrow(refusal);

    await fill(store);
    copy(['']);
    await expect(createSqliteStore({ directory: copied })).rejects.toThrow(refusal);
  });

  test('without its log is accepted with an empty log', async () => {
    const store = await open(running);
    await put(store, 'copied');
    await fill(store);
    await put(store, 'only in the log');
    copy(['']);
    writeFileSync(logOf(copied), '');
    expect(await valueIn(copied)).toBe('copied');
  });

  test('with its log has all data', async () => {
    await put(await open(running), 'last');
    copy(['', '-wal']);
    expect(await valueIn(copied)).toBe('last');
  });

  test('after it was closed has all data, as a single file or as a folder', async () => {
    await put(await open(running), 'last');
    await close();
    copy(['']);
    expect(await valueIn(copied)).toBe('last');

    await close();
    rmSync(copied, { recursive: true });
    cpSync(running, copied, { recursive: true });
    expect(await valueIn(copied)).toBe('last');
  });

  test('while a second process still has it open is refused after the probe of that process', async () => {
    const [first, second] = [await open(running), await open(running)];
    await first.close();
    await second.ready();
    await put(second, 'last');
    await expect
      .poll(async () => {
        copy(['']);
        const store = await createSqliteStore({ directory: copied }).catch((error: Error) => error);
        if (!(store instanceof Error)) await store.close();
        return store instanceof Error && store.message;
      })
      .toMatch(refusal);
  });

  test('and killed several times starts with its log and without loss', async () => {
    mkdirSync(running);
    for (let round = 0; round < 3; round += 1) {
      const child = startChild('store-worker.ts', [running, 'storm', 'grant', '0']);
      await expect.poll(() => child.lines.length, { interval: 2 }).toBeGreaterThan(5);
      child.kill('SIGKILL');
      const acknowledged = Number((await child.ended).at(-1));
      const record = await (await open(running)).get('grant:{p}:left');
      expect(Number(record?.value)).toBeGreaterThanOrEqual(acknowledged);
      await close();
    }
  });
});

describe('R125 the log of a database file', () => {
  const refusal = /log .*-wal does not belong to the database .*different times or databases/;

  async function expectRefused(): Promise<void> {
    const before = [readFileSync(fileOf(copied)), readFileSync(logOf(copied))];
    for (let attempt = 0; attempt < 2; attempt += 1)
      await expect(createSqliteStore({ directory: copied })).rejects.toThrow(refusal);
    expect(readFileSync(fileOf(copied)).equals(before[0] ?? Buffer.alloc(0))).toBe(true);
    expect(readFileSync(logOf(copied)).equals(before[1] ?? Buffer.alloc(0))).toBe(true);
  }

  test('from another database is refused, and nothing is changed', async () => {
    await put(await open(running), 'running');
    const other = join(directory, 'other');
    await put(await open(other), 'other');
    copyFileSync(fileOf(running), fileOf(copied));
    copyFileSync(logOf(other), logOf(copied));
    await expectRefused();
  });

  test('from a later time is refused, both for a file that was in use and for one that was closed', async () => {
    await put(await open(running), 'old');
    copy(['']);
    await close();
    copyFileSync(fileOf(running), `${fileOf(copied)}-old`);
    const store = await open(running);
    await fill(store);
    await fill(store);
    await put(store, 'new');
    copyFileSync(logOf(running), logOf(copied));
    await expectRefused();

    renameSync(`${fileOf(copied)}-old`, fileOf(copied));
    await expectRefused();
  });

  test('from an earlier time is refused', async () => {
    const store = await open(running);
    await put(store, 'old');
    copyFileSync(logOf(running), logOf(copied));
    await fill(store);
    await fill(store);
    copy(['']);
    await expectRefused();
  });

  test('from the same time is accepted before, between and after checkpoints', async () => {
    const store = await open(running);
    for (let round = 0; round < 12; round += 1) {
      await put(store, String(round));
      for (let n = 0; n < 8; n += 1) await store.write([{ put: `filler ${n}`, value: 'x'.repeat(100_000) }]);
      // In one turn of the event loop. A checkpoint of the other thread may still run in between, but it only copies
      // more.
      copyFileSync(logOf(running), logOf(copied));
      const before = generationOf(running);
      copyFileSync(fileOf(running), fileOf(copied));
      if (generationOf(running) !== before) continue;
      const other = await createSqliteStore({ directory: copied });
      await other.close();
      rmSync(copied, { recursive: true });
      mkdirSync(copied);
    }
  });
});

describe('R125 a running process notices that', () => {
  test.each([
    ['the database file was moved away', () => renameSync(fileOf(running), `${fileOf(running)}-away`)],
    ['the folder was moved away', () => renameSync(running, copied)],
    [
      'the folder was replaced by a copy',
      () => {
        cpSync(running, `${running}-copy`, { recursive: true });
        renameSync(running, copied);
        renameSync(`${running}-copy`, running);
      },
    ],
    ['the log was deleted', () => rmSync(logOf(running))],
    ['the index of the log was deleted', () => rmSync(`${fileOf(running)}-shm`)],
  ])('%s', async (_, change) => {
    const store = await open(running);
    await store.ready();
    rmSync(copied, { recursive: true });
    change();
    const error = await store.ready().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(StorageReplaced);
    expect(error).toMatchObject({ code: 'storage_unavailable', logDetail: expect.stringContaining(fileOf(running)) });
  });

  test('the database files are back', async () => {
    const store = await open(running);
    rmSync(copied, { recursive: true });
    renameSync(running, copied);
    await expect(store.ready()).rejects.toBeInstanceOf(StorageReplaced);

    renameSync(copied, running);
    await store.ready();
  });
});
