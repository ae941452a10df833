/** R51, R124: which writes are acknowledged when, by the flushes of the log. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createCheckpoints } from '../../../../src/shared/storage/sqlite/checkpoints.ts';
import { openDatabase } from '../../../../src/shared/storage/sqlite/database.ts';
import { FlushFault, isDiskFault } from '../../../../src/shared/storage/sqlite/faults.ts';
import { createLogFlush, type FlushWaiter } from '../../../../src/shared/storage/sqlite/log-flush.ts';
import { sqliteProbe } from '../../../../src/shared/storage/sqlite/probe.ts';
import { createSqliteWriter } from '../../../../src/shared/storage/sqlite/writer.ts';

const RETRY = { deadlineMilliseconds: 1_000, random: Math.random };
const FILE = '/data/gatehouse.sqlite';

let directory: string;
let database: DatabaseSync;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-flush-'));
  database = await openDatabase(join(directory, 'some.sqlite'), RETRY);
});
afterEach(() => {
  database.close();
  rmSync(directory, { recursive: true });
});

/** Flushes that end when the test says so. */
function heldFlushes() {
  const held: PromiseWithResolvers<void>[] = [];
  const sync = () => {
    const flush = Promise.withResolvers<void>();
    held.push(flush);
    return flush.promise;
  };
  return { held, sync, flush: createLogFlush({ file: FILE, sync }) };
}

const unavailableBy = (message: RegExp) => ({
  code: 'storage_unavailable',
  cause: expect.objectContaining({ message: expect.stringMatching(message) }),
});

test('R51: no write is acknowledged before a flush has ended that began after its commit, whatever the order', async () => {
  const steps = fc.array(fc.constantFrom('durable', 'relaxed', 'turn', 'end'), { minLength: 5, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(steps, async (schedule) => {
      let moment = 0;
      const clock = () => {
        moment += 1;
        return moment;
      };
      const ended: { began: number; end: number }[] = [];
      const held: (() => void)[] = [];
      const sync = () => {
        const began = clock();
        return new Promise<void>((resolve) => {
          held.push(() => {
            ended.push({ began, end: clock() });
            resolve();
          });
        });
      };
      const flush = createLogFlush({ file: FILE, sync });
      const writer = createSqliteWriter(database, RETRY, { flush });
      const jobs: Promise<void>[] = [];
      for (const step of schedule) {
        if (step === 'turn') await turn();
        else if (step === 'end') held.shift()?.();
        else {
          const relaxed = step === 'relaxed';
          const write = writer.run(clock, { relaxed });
          jobs.push(
            write.then((workedAt) => {
              if (!relaxed) expect(ended.some(({ began }) => began > workedAt)).toBe(true);
            }),
          );
        }
      }
      const all = Promise.all(jobs);
      let done = false;
      void all.finally(() => {
        done = true;
      });
      while (!done) {
        held.shift()?.();
        await turn();
      }
      await all;
      await writer.close();
    }),
    { numRuns: 60 },
  );
});

test('R51: further transactions go on during a flush, and share the next one', async () => {
  const { held, flush } = heldFlushes();
  const writer = createSqliteWriter(database, RETRY, { flush });
  const acknowledged: string[] = [];
  const write = async (name: string, relaxed = false) => {
    await writer.run(() => undefined, { relaxed });
    acknowledged.push(name);
  };
  const first = write('first');
  await expect.poll(() => held.length).toBe(1);
  const others = [write('second'), write('third')];
  await write('relaxed', true);
  expect(acknowledged).toEqual(['relaxed']);
  held[0]?.resolve();
  await first;
  await expect.poll(() => held.length).toBe(2);
  expect(acknowledged).toEqual(['relaxed', 'first']);
  held[1]?.resolve();
  await Promise.all(others);
  expect(held).toHaveLength(2);
});

describe('a flush that fails', () => {
  test('rejects all writes that wait, and none is acknowledged until the log has begun anew', async () => {
    const failing = vi.fn(async () => {
      throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
    });
    const sync = vi.fn<() => Promise<void>>(async () => undefined).mockImplementationOnce(failing);
    const file = join(directory, 'some.sqlite');
    const flush = createLogFlush({ file, sync });
    let round = 0;
    const writer = createSqliteWriter(database, RETRY, {
      flush,
      afterCommit: () => {
        if (round > 0) checkpoints.consider();
      },
    });
    const failed = vi.fn();
    const checkpoints = createCheckpoints({ file, database, writer, flush, observer: { checkpointFailed: failed } });
    onTestFinished(() => checkpoints.close());
    const put = () => writer.run(() => database.exec('UPDATE probe SET filler = randomblob(16)'));
    await expect(put()).rejects.toMatchObject(unavailableBy(/A flush of .*some\.sqlite-wal failed/));
    // The kernel would let the next flush succeed, although the pages of the first are not on the disk.
    for (let times = 0; times < 3; times += 1)
      await expect(put()).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect(sync).toHaveBeenCalledTimes(1);
    round = 1;
    const generation = () => database.prepare('SELECT hex(generation) AS it FROM log_state').get()?.it;
    const before = generation();
    await expect
      .poll(() =>
        put().then(
          () => 'written',
          () => 'refused',
        ),
      )
      .toBe('written');
    expect(generation()).not.toBe(before);
    expect(sync).toHaveBeenCalledTimes(2);
    expect(failed).not.toHaveBeenCalled();
    await writer.close();
  });

  test('is not forgotten while a reader keeps the log from beginning anew', async () => {
    const file = join(directory, 'some.sqlite');
    const flush = createLogFlush({ file, sync: async () => undefined });
    const writer = createSqliteWriter(database, RETRY, { flush });
    const checkpoints = createCheckpoints({ file, database, writer, flush });
    onTestFinished(() => checkpoints.close());
    using reader = await openDatabase(file, RETRY);
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM records').get();
    flush.fail(new Error('EIO'));
    checkpoints.begin();
    await writer.unpaused(Number.POSITIVE_INFINITY);
    await turn();
    expect(flush.failure()).toBeDefined();
    reader.exec('COMMIT');
    const failureAfterRound = () => {
      checkpoints.begin();
      return flush.failure();
    };
    await expect.poll(failureAfterRound, { interval: 20 }).toBeUndefined();
  });
});

describe('a flush that takes long', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
  afterEach(() => void vi.useRealTimers());

  const waiter = (isProbe = false): FlushWaiter => ({ done: vi.fn(), fail: vi.fn(), isProbe });

  test('R124 fails the probe after 2 s with its file and time, and writes only after 10 s', async () => {
    const { held, flush } = heldFlushes();
    const [write, probe] = [waiter(), waiter(true)];
    flush.wait(write);
    flush.wait(probe);
    await vi.advanceTimersByTimeAsync(1_900);
    expect(probe.fail).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(200);
    expect(probe.fail).toHaveBeenCalledWith(expect.objectContaining(unavailableBy(/2000 ms .*gatehouse\.sqlite-wal/)));
    const [error] = vi.mocked(probe.fail).mock.calls[0] ?? [];
    expect(error instanceof Error && isDiskFault(error.cause)).toBe(true);
    await vi.advanceTimersByTimeAsync(7_800);
    expect(write.fail).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(200);
    expect(write.fail).toHaveBeenCalledWith(expect.objectContaining(unavailableBy(/10000 ms/)));
    const late = waiter();
    flush.wait(late);
    expect(late.fail).toHaveBeenCalled();
    // Once it ends after all, it has failed nothing.
    held[0]?.resolve();
    await flush.idle();
    const next = waiter();
    flush.wait(next);
    held[1]?.resolve();
    await flush.idle();
    expect(next.done).toHaveBeenCalled();
  });

  test('R124 lets each write wait 10 s and each probe 2 s, from when it began to wait, however long one flush takes', async () => {
    const { held, flush } = heldFlushes();
    flush.wait(waiter());
    await vi.advanceTimersByTimeAsync(1_000);
    const [write, probe, late] = [waiter(), waiter(true), waiter()];
    flush.wait(write);
    await vi.advanceTimersByTimeAsync(7_000);
    flush.wait(probe);
    flush.wait(late);
    await vi.advanceTimersByTimeAsync(1_000);
    held[0]?.resolve();
    await vi.advanceTimersByTimeAsync(900);
    expect(held).toHaveLength(2);
    expect(probe.fail).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(200);
    expect(probe.fail).toHaveBeenCalledOnce();
    await vi.advanceTimersByTimeAsync(800);
    expect(write.fail).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(200);
    expect(write.fail).toHaveBeenCalledWith(expect.objectContaining(unavailableBy(/10000 ms/)));
    expect(late.fail).not.toHaveBeenCalled();
    held[1]?.resolve();
    await flush.idle();
    expect(late.done).toHaveBeenCalledOnce();
    for (const { done } of [write, probe]) expect(done).not.toHaveBeenCalled();
    expect([flush.fault(), vi.getTimerCount()]).toEqual([undefined, 0]);
  });

  test('R124 is logged with its milliseconds and its file, at most once a minute; each is measured', async () => {
    const observer = { flushed: vi.fn(), flushedSlowly: vi.fn() };
    const sync = () => new Promise<void>((resolve) => setTimeout(resolve, 700));
    const flush = createLogFlush({ file: FILE, sync, observer });
    for (let times = 0; times < 90; times += 1) {
      flush.wait(waiter());
      await vi.advanceTimersByTimeAsync(700);
    }
    expect(observer.flushedSlowly.mock.calls).toEqual([
      [{ file: FILE, milliseconds: 700 }],
      [{ file: FILE, milliseconds: 700 }],
    ]);
    expect(observer.flushed).toHaveBeenCalledTimes(90);
    expect(observer.flushed).toHaveBeenLastCalledWith(0.7, 'flush');
  });
});

describe('a checkpoint that takes long', () => {
  const setUp = () => {
    const file = join(directory, 'some.sqlite');
    const writer = createSqliteWriter(database, { ...RETRY, deadlineMilliseconds: 100 });
    const reason = new FlushFault(`A checkpoint of ${file} takes longer than a write may wait`);
    const probe = sqliteProbe({ database, write: writer.run }, { file, retry: RETRY, unpaused: writer.unpaused });
    onTestFinished(() => probe.close());
    return { writer, reason, probe };
  };

  test('R124 fails each job at its deadline, the probe included, while the writer is paused', async () => {
    const { writer, reason, probe } = setUp();
    writer.pause(reason);
    const refused = expect.objectContaining({ code: 'storage_unavailable', cause: reason });
    await expect(writer.run(() => 1)).rejects.toEqual(refused);
    await expect(probe.ready()).rejects.toEqual(refused);
    await expect(writer.unpaused(performance.now() + 50)).rejects.toEqual(refused);
    writer.resume();
    expect(await writer.run(() => 2)).toBe(2);
    await probe.ready();
    writer.pause(reason);
    const last = expect(writer.run(() => 3)).rejects.toEqual(refused);
    await writer.close();
    await last;
  });

  test('R124 is measured in each step, and logged like a slow flush', async () => {
    const file = join(directory, 'some.sqlite');
    const observer = { flushed: vi.fn(), flushedSlowly: vi.fn() };
    const flush = createLogFlush({ file, sync: async () => undefined, observer });
    const writer = createSqliteWriter(database, RETRY, { flush });
    const checkpoints = createCheckpoints({ file, database, writer, flush });
    checkpoints.begin();
    await checkpoints.close();
    expect(observer.flushed.mock.calls.length).toBeGreaterThan(2);
    expect(new Set(observer.flushed.mock.calls.map(([, by]) => by))).toEqual(new Set(['checkpoint']));
    observer.flushedSlowly.mockClear();
    createLogFlush({ file, sync: async () => undefined, observer }).checkpointed(700);
    expect(observer.flushed).toHaveBeenLastCalledWith(0.7, 'checkpoint');
    expect(observer.flushedSlowly.mock.calls).toEqual([[{ file, milliseconds: 700 }]]);
  });
});
