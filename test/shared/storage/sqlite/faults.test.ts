/** The embedded store when its file is locked, damaged, gone or of another program, or its disk is full. */
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
const openedStores: Store[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  file = join(directory, DATABASE_FILE);
});

afterEach(async () => {
  for (const store of openedStores.splice(0)) await store.close();
  await rm(directory, { recursive: true });
});

async function open(options: Partial<SqliteStoreOptions> = {}): Promise<Store> {
  const store = await createSqliteStore({ directory, ...options });
  openedStores.push(store);
  return store;
}

const refusal = (message: RegExp) => ({ name: 'StorageRefused', message: expect.stringMatching(message) });

async function createAndClose(): Promise<void> {
  const store = await createSqliteStore({ directory });
  for (let n = 0; n < 200; n += 1) void store.write([{ put: `k${n}`, value: 'x'.repeat(500) }]);
  await store.close();
}

test('a stall of this process fails no write that the database would accept', async () => {
  const store = await open({ deadlineMilliseconds: 50 });
  const written = store.write([{ put: 'a', value: '1' }]);
  const stallEnd = performance.now() + 150;
  while (performance.now() < stallEnd);
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

  test('refuses writes with storage_unavailable at the deadline, without blocking reads or the event loop', async () => {
    const store = await open({ deadlineMilliseconds: 400 });
    await store.write([{ put: 'a', value: '1' }]);
    await lock();
    const loop = performance.eventLoopUtilization();
    const [startedAt, startedStopwatch] = [performance.now(), startStopwatch()];
    const results = Promise.allSettled(
      Array.from({ length: 200 }, (_, n) => store.write([{ put: `b${n}`, value: '2' }])),
    );
    expect((await store.get('a'))?.value).toBe('1');

    for (const result of await results) {
      expect(result).toMatchObject({ reason: { code: 'storage_unavailable', status: 503, retryAfterSeconds: 1 } });
    }
    const { active } = performance.eventLoopUtilization(loop);
    const [elapsed, ownMilliseconds] = [performance.now() - startedAt, startedStopwatch()];
    expect(elapsed).toBeGreaterThanOrEqual(395);
    expect(ownMilliseconds).toBeLessThan(800);
    // Without pauses between the attempts the loop would never be idle. It also counts as active while other processes
    // have the processor.
    expect((active - (elapsed - ownMilliseconds)) / ownMilliseconds).toBeLessThan(0.8);
    await expect(store.ready()).rejects.toMatchObject({ code: 'storage_unavailable' });
  });

  test('accepts writes in order if the lock is released before the deadline', async () => {
    const store = await open();
    await lock();
    const writes = ['1', '2', '3'].map((value) => store.write([{ put: 'a', value }]));
    // On a busy machine, the process with the lock may wait this long for a processor.
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
    // The first write uses up the deadline, and then another process acquires the lock again.
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

  test('does not prevent a store from closing', async () => {
    const store = await open({ deadlineMilliseconds: 100 });
    await lock();
    const write = store.write([{ put: 'a', value: '1' }]).catch((error: unknown) => error);
    await store.close();
    expect(await write).toMatchObject({ code: 'storage_unavailable' });
  });
});

test('on a full disk, writes and the probe fail with storage_unavailable, reads succeed, and nothing is damaged', async () => {
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

  test('writes nothing while the log has enough space', async () => {
    const store = await open();
    await store.ready(3_000 * KILOBYTE);
    const before = log();
    for (let round = 0; round < 5; round += 1) await store.ready(3_000 * KILOBYTE);
    expect(
      log()
        .subarray(KILOBYTE * KILOBYTE)
        .equals(before.subarray(KILOBYTE * KILOBYTE)),
    ).toBe(true);
  });

  test('reserves the requested space regardless of writes in between', async () => {
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
  test('and its log are readable only by their owner', async () => {
    const nested = join(directory, 'data');
    const store = await open({ directory: nested });
    await store.write([{ put: 'a', value: '1' }]);
    expect(statSync(nested).mode & 0o777).toBe(0o700);

    for (const name of readdirSync(nested)) expect(statSync(join(nested, name)).mode & 0o777).toBe(0o600);
    expect(readdirSync(nested).toSorted()).toEqual([DATABASE_FILE, `${DATABASE_FILE}-shm`, `${DATABASE_FILE}-wal`]);
  });

  test('has a log that commits do not flush and the main thread does not copy', async () => {
    const database = await openDatabase(file, { deadlineMilliseconds: 100, random: Math.random });
    expect(database.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
    expect(database.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 1 });
    expect(database.prepare('PRAGMA wal_autocheckpoint').get()).toEqual({ wal_autocheckpoint: 0 });
    expect(database.prepare('PRAGMA busy_timeout').get()).toEqual({ timeout: 0 });

    database.close();
  });

  test('with damaged bytes is refused at the start, with the remedy, and not changed', async () => {
    await createAndClose();
    const bytes = readFileSync(file);
    randomBytes(8_192).copy(bytes, 4_096);
    writeFileSync(file, bytes);
    await expect(open()).rejects.toBeInstanceOf(StorageRefused);
    await expect(open()).rejects.toThrow(/damaged.*Restore a backup/);
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  describe('that the last process closed', () => {
    /** Damages the end of the file, which a start without a full check does not read. */
    const damage = () => {
      const bytes = readFileSync(file);
      randomBytes(4_096).copy(bytes, bytes.length - 4_096);
      writeFileSync(file, bytes);
    };
    const openAndClose = async () => {
      const database = await openDatabase(file, { deadlineMilliseconds: 100, random: Math.random });
      database.exec(END_USE);
      database.close();
    };

    test('is not checked at the next start, but at the one after it', async () => {
      await createAndClose();
      damage();
      recordCleanStop(file);
      await openAndClose();
      await expect(openAndClose()).rejects.toMatchObject(refusal(/is damaged/));
    });

    test('is checked if another program has written to it', async () => {
      await createAndClose();
      damage();
      await expect(openAndClose()).rejects.toMatchObject(refusal(/is damaged/));
    });

    test('is checked if it is a copy', async () => {
      await createAndClose();
      damage();
      recordCleanStop(file);
      copyFileSync(file, `${file}.copy`);
      renameSync(`${file}.copy`, file);
      await expect(openAndClose()).rejects.toMatchObject(refusal(/is damaged/));
    });

    test('is checked after a kill, even if a process closed it before', async () => {
      await createAndClose();
      const child = startChild('store-worker.ts', [directory, 'storm', 'grant', '0']);
      await expect.poll(() => child.lines.length, { interval: 2 }).toBeGreaterThan(5);

      child.kill('SIGKILL');
      await child.ended;
      expect(readdirSync(directory).filter((name) => name.endsWith('-closed'))).toEqual([]);
    });

    test('has no marker while another process has it open', async () => {
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
  ])('that is %s is refused and not replaced by a new database', async (_, content) => {
    writeFileSync(file, content);
    await expect(open()).rejects.toMatchObject(refusal(/is empty|is not a database/));
    expect(readFileSync(file, 'utf8')).toBe(content);
  });

  test('that is truncated is refused', async () => {
    await createAndClose();
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
    await createAndClose();
    const other = new DatabaseSync(file);
    other.exec('PRAGMA user_version = 999');
    other.close();
    await expect(open()).rejects.toMatchObject(refusal(/has version 999/));
  });

  test('of a version that is too old is refused and not changed', async () => {
    await createAndClose();
    const other = new DatabaseSync(file);
    other.exec('PRAGMA user_version = 2');
    await expect(open()).rejects.toMatchObject(refusal(/is from a release candidate/));
    expect(other.prepare('PRAGMA user_version').get()).toEqual({ user_version: 2 });

    other.close();
  });

  test('that is gone while its log exists is not replaced by a new one', async () => {
    writeFileSync(`${file}-wal`, 'what was written last');
    await expect(open()).rejects.toMatchObject(refusal(/is gone, but its log/));
    expect(existsSync(file)).toBe(false);
  });

  test('keeps all data and versions after a restart', async () => {
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

test('expired records, counters, notices and old leases are removed from the file', async () => {
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

describe('faults are classified by their code:', () => {
  test('a full database becomes storage_unavailable with its cause, and a mistake in a statement is not changed', () => {
    const database = new DatabaseSync(':memory:');
    database.exec('CREATE TABLE t (x UNIQUE); PRAGMA max_page_count = 3');
    const thrownBy = (sql: string): unknown => {
      try {
        return database.exec(sql);
      } catch (error) {
        return error;
      }
    };
    const fullError = thrownBy('INSERT INTO t VALUES (zeroblob(100000))');
    expect(toStoreError(fullError)).toMatchObject({
      code: 'storage_unavailable',
      cause: fullError,
      retryAfterSeconds: 30,
    });

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

test('a mistake in one write undoes only that write', async () => {
  const store = await open();
  const invalidWrite = store.write([
    { put: 'a:{t}', value: 'must not stay' },
    { index: 'i:{t}', add: 'm', score: Number.NaN },
  ]);
  const validWrite = store.write([{ put: 'b', value: 'stays' }]);
  await expect(invalidWrite).rejects.toBeInstanceOf(TypeError);
  expect(await validWrite).toBeDefined();
  expect(await store.get('a:{t}')).toBeUndefined();
  expect((await store.get('b'))?.value).toBe('stays');
});

test('a message reaches the other listeners if one of them throws', async () => {
  const store = await open();
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const messages: string[] = [];
  await store.subscribe('c', () => {
    throw new Error('listener failed');
  });
  await store.subscribe('c', (message) => messages.push(message));
  await store.publish('c', '1');
  expect(messages).toEqual(['1']);
  expect(warn).toHaveBeenCalledOnce();

  warn.mockRestore();
});
