/** What the embedded store does when its file is locked, full, damaged, foreign or gone. */

import { randomBytes } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { StorageRefused } from '../../../../src/shared/storage/refused.ts';
import { recordCleanStop } from '../../../../src/shared/storage/sqlite/clean-stop.ts';
import { openDatabase } from '../../../../src/shared/storage/sqlite/database.ts';
import { isBusy, toStoreError } from '../../../../src/shared/storage/sqlite/faults.ts';
import { END_USE } from '../../../../src/shared/storage/sqlite/log-state.ts';
import { sqliteProbe } from '../../../../src/shared/storage/sqlite/probe.ts';
import {
  createSqliteStore,
  DATABASE_FILE,
  type SqliteStoreOptions,
} from '../../../../src/shared/storage/sqlite/store.ts';
import { MIN_FREE_BYTES, type Store } from '../../../../src/shared/storage/store.ts';
import { startChild } from '../../../support/child.ts';
import { startStopwatch } from '../../../support/stopwatch.ts';

let directory: string;
let file: string;
const opened: Store[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  file = join(directory, DATABASE_FILE);
});

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  await rm(directory, { recursive: true });
});

async function open(options: Partial<SqliteStoreOptions> = {}): Promise<Store> {
  const store = await createSqliteStore({ directory, ...options });
  opened.push(store);
  return store;
}

const refusal = (message: RegExp) => ({ name: 'StorageRefused', message: expect.stringMatching(message) });

async function makeAndClose(): Promise<void> {
  const store = await createSqliteStore({ directory });
  for (let n = 0; n < 200; n += 1) void store.write([{ put: `k${n}`, value: 'x'.repeat(500) }]);
  await store.close();
}

test('a stall of this process refuses no write that the database would take', async () => {
  const store = await open({ deadlineMilliseconds: 50 });
  const written = store.write([{ put: 'a', value: '1' }]);
  const until = performance.now() + 150;
  while (performance.now() < until);
  expect(await written).toBeDefined();
});

describe('a locked database', () => {
  let blocker: DatabaseSync;

  afterEach(() => {
    if (blocker.isOpen) blocker.close();
  });

  async function lock(): Promise<void> {
    blocker = new DatabaseSync(file);
    blocker.exec('BEGIN IMMEDIATE');
  }

  test('refuses writes with storage_unavailable at the deadline, while the event loop and reads go on', async () => {
    const store = await open({ deadlineMilliseconds: 400 });
    await store.write([{ put: 'a', value: '1' }]);
    await lock();
    const loop = performance.eventLoopUtilization();
    const [startedAt, own] = [performance.now(), startStopwatch()];
    const results = Promise.allSettled(
      Array.from({ length: 200 }, (_, n) => store.write([{ put: `b${n}`, value: '2' }])),
    );
    expect((await store.get('a'))?.value).toBe('1');
    for (const result of await results) {
      expect(result).toMatchObject({ reason: { code: 'storage_unavailable', status: 503, retryAfterSeconds: 1 } });
    }
    const { active } = performance.eventLoopUtilization(loop);
    const [elapsed, took] = [performance.now() - startedAt, own()];
    expect(elapsed).toBeGreaterThanOrEqual(395);
    expect(took).toBeLessThan(800);
    // Without pauses between the attempts the loop would never be idle. It counts as active, too, while others have the
    // processor.
    expect((active - (elapsed - took)) / took).toBeLessThan(0.8);
    await expect(store.ready()).rejects.toMatchObject({ code: 'storage_unavailable' });
  });

  test('lets writes through, in order, once the lock is gone before the deadline', async () => {
    const store = await open();
    await lock();
    const writes = ['1', '2', '3'].map((value) => store.write([{ put: 'a', value }]));
    // As long as a busy machine lets another process wait that holds the lock.
    setTimeout(() => blocker.exec('ROLLBACK'), 1_500);
    expect(await Promise.all(writes)).toEqual([expect.any(Number), expect.any(Number), expect.any(Number)]);
    expect((await store.get('a'))?.value).toBe('3');
    await expect(store.ready()).resolves.toBeUndefined();
  });

  test('has one deadline for both writes of the readiness probe', async () => {
    const database = await openDatabase(file, { deadlineMilliseconds: 400, random: Math.random });
    onTestFinished(() => database.close());
    let now = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 1));
    onTestFinished(() => clock.mockRestore());
    // The first write waits for as long as it may, and then another process takes the lock again.
    const write = async <T>(work: () => T) => {
      now += 20;
      const result = work();
      await lock();
      return result;
    };
    const retry = { deadlineMilliseconds: 20, random: Math.random };
    const probe = sqliteProbe({ database, write }, { file, retry });
    onTestFinished(() => probe.close());
    await expect(probe.ready()).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect(now).toBeLessThan(30);
  });

  test('does not keep a store from closing', async () => {
    const store = await open({ deadlineMilliseconds: 100 });
    await lock();
    const write = store.write([{ put: 'a', value: '1' }]).catch((error: unknown) => error);
    await store.close();
    expect(await write).toMatchObject({ code: 'storage_unavailable' });
  });
});

test('a full disk refuses writes and the readiness probe with storage_unavailable; reads go on, and nothing is damaged', async () => {
  const child = startChild('store-worker.ts', [directory, 'fill'], { fileSizeBlocks: 2_048 });
  const [write, probe, read] = await child.ended;
  expect(write).toMatch(/^storage_unavailable [0-9]+$/);
  expect(probe).toMatch(/^storage_unavailable [0-9]+$/);
  expect(read).toBe('kept');
  const store = await open();
  await expect(store.ready()).resolves.toBeUndefined();
  expect((await store.get('first'))?.value).toBe('kept');
});

describe('the probe', () => {
  const KILOBYTE = 1024;
  const log = () => readFileSync(`${file}-wal`);

  test('reserves nothing again while the log has the room: each time it would go to the disk', async () => {
    const store = await open();
    await store.ready(3_000 * KILOBYTE);
    const before = log();
    for (let time = 0; time < 5; time += 1) await store.ready(3_000 * KILOBYTE);
    expect(
      log()
        .subarray(KILOBYTE * KILOBYTE)
        .equals(before.subarray(KILOBYTE * KILOBYTE)),
    ).toBe(true);
  });

  test('leaves the room that was asked for, whatever was written since', async () => {
    const store = await open();
    using other = new DatabaseSync(file);
    const pages = other.prepare('PRAGMA wal_checkpoint(NOOP)');
    for (const kilobytes of [0, 500, 7_000, 100, 3_000, 0, 7_000, 6_000]) {
      await store.write([{ put: `k${kilobytes}`, value: 'x'.repeat(900 * KILOBYTE) }]);
      await store.ready(kilobytes * KILOBYTE);
      const used = 32 + Number(pages.get()?.log) * 4_120;
      expect(log().length - used, String(kilobytes)).toBeGreaterThanOrEqual(MIN_FREE_BYTES + kilobytes * KILOBYTE);
    }
  });
});

describe('the file', () => {
  test('and its log are for their owner alone', async () => {
    const nested = join(directory, 'data');
    const store = await open({ directory: nested });
    await store.write([{ put: 'a', value: '1' }]);
    expect(statSync(nested).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(nested)) expect(statSync(join(nested, name)).mode & 0o777).toBe(0o600);
    expect(readdirSync(nested).toSorted()).toEqual([DATABASE_FILE, `${DATABASE_FILE}-shm`, `${DATABASE_FILE}-wal`]);
  });

  test('has a log that no commit flushes, and that the main thread never copies', async () => {
    const database = await openDatabase(file, { deadlineMilliseconds: 100, random: Math.random });
    expect(database.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
    expect(database.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 1 });
    expect(database.prepare('PRAGMA wal_autocheckpoint').get()).toEqual({ wal_autocheckpoint: 0 });
    expect(database.prepare('PRAGMA busy_timeout').get()).toEqual({ timeout: 0 });
    database.close();
  });

  test('with flipped bytes is refused at start, with what to do, and left as it was', async () => {
    await makeAndClose();
    const bytes = readFileSync(file);
    randomBytes(8_192).copy(bytes, 4_096);
    writeFileSync(file, bytes);
    await expect(open()).rejects.toBeInstanceOf(StorageRefused);
    await expect(open()).rejects.toThrow(/damaged.*Restore a backup/);
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  describe('that the last process closed', () => {
    /** Damage at the end of the file, where nothing looks at the start. */
    const damage = () => {
      const bytes = readFileSync(file);
      randomBytes(4_096).copy(bytes, bytes.length - 4_096);
      writeFileSync(file, bytes);
    };
    const opensUnchecked = async () => {
      const database = await openDatabase(file, { deadlineMilliseconds: 100, random: Math.random });
      database.exec(END_USE);
      database.close();
    };

    test('is not read as a whole at the next start, only at the one after that', async () => {
      await makeAndClose();
      damage();
      recordCleanStop(file);
      await opensUnchecked();
      await expect(opensUnchecked()).rejects.toMatchObject(refusal(/is damaged/));
    });

    test('is checked if another program wrote to it since', async () => {
      await makeAndClose();
      damage();
      await expect(opensUnchecked()).rejects.toMatchObject(refusal(/is damaged/));
    });

    test('is checked if it is a copy', async () => {
      await makeAndClose();
      damage();
      recordCleanStop(file);
      copyFileSync(file, `${file}.copy`);
      renameSync(`${file}.copy`, file);
      await expect(opensUnchecked()).rejects.toMatchObject(refusal(/is damaged/));
    });

    test('is checked after a kill, whatever was noted before', async () => {
      await makeAndClose();
      const child = startChild('store-worker.ts', [directory, 'storm', 'grant', '0']);
      await expect.poll(() => child.lines.length, { interval: 2 }).toBeGreaterThan(5);
      child.kill('SIGKILL');
      await child.ended;
      expect(readdirSync(directory).filter((name) => name.endsWith('-closed'))).toEqual([]);
    });

    test('notes nothing while another process has it open', async () => {
      const first = await open();
      const second = await createSqliteStore({ directory });
      await second.close();
      expect(readdirSync(directory).filter((name) => name.endsWith('-closed'))).toEqual([]);
      await first.close();
      expect(readdirSync(directory).filter((name) => name.endsWith('-closed'))).toHaveLength(1);
    });
  });

  test.each([
    ['empty', ''],
    ['text', 'this is not a database, and longer than a header'],
  ])('that is %s is refused, and no new database is made in its place', async (_, content) => {
    writeFileSync(file, content);
    await expect(open()).rejects.toMatchObject(refusal(/is empty|is not a database/));
    expect(readFileSync(file, 'utf8')).toBe(content);
  });

  test('cut short is refused', async () => {
    await makeAndClose();
    truncateSync(file, statSync(file).size - 40_960);
    await expect(open()).rejects.toMatchObject(refusal(/is damaged/));
  });

  test('of another program is refused', async () => {
    const other = new DatabaseSync(file);
    other.exec('CREATE TABLE t (x)');
    other.close();
    await expect(open()).rejects.toMatchObject(refusal(/belongs to another program/));
  });

  test('of a newer version is refused', async () => {
    await makeAndClose();
    const other = new DatabaseSync(file);
    other.exec('PRAGMA user_version = 999');
    other.close();
    await expect(open()).rejects.toMatchObject(refusal(/has version 999/));
  });

  test('of a version before those that can be read is refused, and stays as it is', async () => {
    await makeAndClose();
    const other = new DatabaseSync(file);
    other.exec('PRAGMA user_version = 2');
    await expect(open()).rejects.toMatchObject(refusal(/is from a release candidate/));
    expect(other.prepare('PRAGMA user_version').get()).toEqual({ user_version: 2 });
    other.close();
  });

  test('that is gone while its log is there is not replaced by a new one', async () => {
    writeFileSync(`${file}-wal`, 'what was written last');
    await expect(open()).rejects.toMatchObject(refusal(/is gone, but its log/));
    expect(existsSync(file)).toBe(false);
  });

  test('keeps everything over a restart, versions included', async () => {
    const first = await createSqliteStore({ directory });
    await first.write([{ put: 'a', value: '1' }]);
    const version = (await first.get('a'))?.version ?? 0;
    await first.write([{ delete: 'a' }]);
    await first.close();
    const second = await open();
    await second.write([{ put: 'a', value: '2' }]);
    expect((await second.get('a'))?.version).toBeGreaterThan(version);
  });
});

test('expired records, counters and old leases are removed from the file in time', async () => {
  let now = 1_800_000_000_000;
  const store = await open({ clock: () => now, sweepMilliseconds: 10 });
  await Promise.all(
    Array.from({ length: 450 }, (_, n) => store.write([{ put: `k${n}`, value: 'v', lifetimeSeconds: 5 }])),
  );
  await store.write([{ put: 'stays', value: 'v' }]);
  await store.increment('c', 1, { lifetimeSeconds: 5 });
  await store.acquireLease('l', 'A', 1_000);
  await store.publish('channel', 'message');
  const reader = new DatabaseSync(file, { readOnly: true });
  const rows = (table: string) => Object.values(reader.prepare(`SELECT count(*) FROM ${table}`).get() ?? {})[0];
  now += 6_000;
  await expect.poll(() => rows('records')).toBe(1);
  await expect.poll(() => rows('counters')).toBe(0);
  expect([rows('leases'), rows('notices')]).toEqual([1, 1]);
  now += 25 * 3_600_000;
  await expect.poll(() => [rows('leases'), rows('notices')]).toEqual([0, 0]);
  reader.close();
});

describe('a fault is told by its code:', () => {
  test('a full database becomes storage_unavailable with its cause, a mistake in a statement stays what it is', () => {
    const database = new DatabaseSync(':memory:');
    database.exec('CREATE TABLE t (x UNIQUE); PRAGMA max_page_count = 3');
    const thrownBy = (sql: string): unknown => {
      try {
        return database.exec(sql);
      } catch (error) {
        return error;
      }
    };
    const full = thrownBy('INSERT INTO t VALUES (zeroblob(100000))');
    expect(toStoreError(full)).toMatchObject({ code: 'storage_unavailable', cause: full, retryAfterSeconds: 30 });
    for (const mistake of [
      thrownBy('SELEC'),
      thrownBy('INSERT INTO t VALUES (1), (1)'),
      new Error('database is locked'),
    ]) {
      expect(toStoreError(mistake)).toBe(mistake);
    }
    database.close();
  });

  test.each([
    [5, true],
    [6, true],
    [5 | (1 << 8), true],
    [5 | (2 << 8), true],
    [10 | (3 << 8), false],
    [13, false],
  ])('result code %i is busy: %s; and always unavailable', (errcode, busy) => {
    const error = Object.assign(new Error('any text'), { errcode });
    expect(isBusy(error)).toBe(busy);
    expect(toStoreError(error)).toMatchObject({ code: 'storage_unavailable' });
  });
});

test('a mistake in one write undoes that write alone', async () => {
  const store = await open();
  const bad = store.write([
    { put: 'a:{t}', value: 'must not stay' },
    { index: 'i:{t}', add: 'm', score: Number.NaN },
  ]);
  const good = store.write([{ put: 'b', value: 'stays' }]);
  await expect(bad).rejects.toBeInstanceOf(TypeError);
  expect(await good).toBeDefined();
  expect(await store.get('a:{t}')).toBeUndefined();
  expect((await store.get('b'))?.value).toBe('stays');
});

test('a listener that throws does not keep the message from the others', async () => {
  const store = await open();
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const heard: string[] = [];
  await store.subscribe('c', () => {
    throw new Error('listener failed');
  });
  await store.subscribe('c', (message) => heard.push(message));
  await store.publish('c', '1');
  expect(heard).toEqual(['1']);
  expect(warn).toHaveBeenCalledOnce();
  warn.mockRestore();
});
