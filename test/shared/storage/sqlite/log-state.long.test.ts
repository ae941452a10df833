/** R125: files of the database that do not belong together are refused at the start, and files that are gone are noticed. */
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
const opened: Store[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  [running, copied] = [join(directory, 'running'), join(directory, 'copied')];
  mkdirSync(copied);
});
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  await rm(directory, { recursive: true });
});

async function open(folder: string): Promise<Store> {
  const store = await createSqliteStore({ directory: folder });
  opened.push(store);
  return store;
}

async function close(): Promise<void> {
  for (const store of opened.splice(0)) await store.close();
}

const fileOf = (folder: string) => join(folder, DATABASE_FILE);
const logOf = (folder: string) => `${fileOf(folder)}-wal`;
const put = (store: Store, value: string) => store.write([{ put: 'k', value }]);
const valueIn = async (folder: string) => (await (await open(folder)).get('k'))?.value;
const copy = (suffixes: readonly string[]) => {
  for (const suffix of suffixes) copyFileSync(fileOf(running) + suffix, fileOf(copied) + suffix);
};
/** So many bytes that the log is copied into the file and begins anew. */
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
  return database.prepare('SELECT hex(generation) AS it FROM log_state').get()?.it;
}

describe('R125 a database file that was copied', () => {
  const refusal =
    /was in use, and its log .*-wal is missing.*copied without its log.*Stop every process and copy both.*touch /;

  test('while it was in use, without its log, is refused by every process that starts, and stays as it is', async () => {
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

  test('right after the first start, or after much was written, is refused, too', async () => {
    const store = await open(running);
    copy(['']);
    await expect(createSqliteStore({ directory: copied })).rejects.toThrow(refusal);
    await fill(store);
    copy(['']);
    await expect(createSqliteStore({ directory: copied })).rejects.toThrow(refusal);
  });

  test('without its log is accepted once an empty log is put beside it', async () => {
    const store = await open(running);
    await put(store, 'copied');
    await fill(store);
    await put(store, 'only in the log');
    copy(['']);
    writeFileSync(logOf(copied), '');
    expect(await valueIn(copied)).toBe('copied');
  });

  test('with its log has everything', async () => {
    await put(await open(running), 'last');
    copy(['', '-wal']);
    expect(await valueIn(copied)).toBe('last');
  });

  test('after it was closed is whole: by itself, with the note of the stop, or as a folder', async () => {
    await put(await open(running), 'last');
    await close();
    copy(['']);
    expect(await valueIn(copied)).toBe('last');
    await close();
    rmSync(copied, { recursive: true });
    cpSync(running, copied, { recursive: true });
    expect(await valueIn(copied)).toBe('last');
  });

  test('while a second process has it open after the first has closed it, is refused once that one has looked', async () => {
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

  test('after a kill it starts, with its log and without loss, again and again', async () => {
    mkdirSync(running);
    for (let round = 0; round < 3; round += 1) {
      const child = startChild('store-worker.ts', [running, 'storm', 'grant', '0']);
      await expect.poll(() => child.lines.length, { interval: 2 }).toBeGreaterThan(5);
      child.kill('SIGKILL');
      const acknowledged = Number((await child.ended).at(-1));
      const left = await (await open(running)).get('grant:{p}:left');
      expect(Number(left?.value)).toBeGreaterThanOrEqual(acknowledged);
      await close();
    }
  });
});

describe('R125 a log beside the database file', () => {
  const refusal = /log .*-wal does not belong to the database .*different times or databases/;

  async function isRefused(): Promise<void> {
    const before = [readFileSync(fileOf(copied)), readFileSync(logOf(copied))];
    for (let times = 0; times < 2; times += 1)
      await expect(createSqliteStore({ directory: copied })).rejects.toThrow(refusal);
    expect(readFileSync(fileOf(copied)).equals(before[0] ?? Buffer.alloc(0))).toBe(true);
    expect(readFileSync(logOf(copied)).equals(before[1] ?? Buffer.alloc(0))).toBe(true);
  }

  test('of another database is refused, and nothing is changed', async () => {
    await put(await open(running), 'running');
    const other = join(directory, 'other');
    await put(await open(other), 'other');
    copyFileSync(fileOf(running), fileOf(copied));
    copyFileSync(logOf(other), logOf(copied));
    await isRefused();
  });

  test('of a later time is refused, whether the older file was in use or closed', async () => {
    await put(await open(running), 'old');
    copy(['']);
    await close();
    copyFileSync(fileOf(running), `${fileOf(copied)}-old`);
    const store = await open(running);
    await fill(store);
    await fill(store);
    await put(store, 'new');
    copyFileSync(logOf(running), logOf(copied));
    await isRefused();
    renameSync(`${fileOf(copied)}-old`, fileOf(copied));
    await isRefused();
  });

  test('of an earlier time is refused', async () => {
    const store = await open(running);
    await put(store, 'old');
    copyFileSync(logOf(running), logOf(copied));
    await fill(store);
    await fill(store);
    copy(['']);
    await isRefused();
  });

  test('of the database itself is accepted at each moment: before, between and after checkpoints', async () => {
    const store = await open(running);
    for (let round = 0; round < 12; round += 1) {
      await put(store, String(round));
      for (let n = 0; n < 8; n += 1) await store.write([{ put: `filler ${n}`, value: 'x'.repeat(100_000) }]);
      // In one turn of the event loop: a checkpoint of the other thread may still come between, and only copies more.
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

describe('R125 a running process finds out that', () => {
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

  test('its files are back', async () => {
    const store = await open(running);
    rmSync(copied, { recursive: true });
    renameSync(running, copied);
    await expect(store.ready()).rejects.toBeInstanceOf(StorageReplaced);
    renameSync(copied, running);
    await store.ready();
  });
});
