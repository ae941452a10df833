/** R51, R124: when writes are acknowledged, depending on the flushes of the log. */
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

/** The flushes under way, which the test ends. */
function createHeldFlushes() {
  const pending: PromiseWithResolvers<void>[] = [];
  const sync = () => {
    const flush = Promise.withResolvers<void>();
    pending.push(flush);
    return flush.promise;
  };
  return { pending, sync, flush: createLogFlush({ file: FILE, sync }) };
}

const unavailableBy = (message: RegExp) => ({
  code: 'storage_unavailable',
  cause: expect.objectContaining({ message: expect.stringMatching(message) }),
});

test('R51: a write is acknowledged only after a flush that began after its commit, in any order of steps', async () => {
  const steps = fc.array(fc.constantFrom('durable', 'relaxed', 'turn', 'end'), { minLength: 5, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(steps, async (schedule) => {
      let moment = 0;
      const clock = () => {
        moment += 1;
        return moment;
      };
      const flushes: { startedAt: number; endedAt: number }[] = [];
      const pending: (() => void)[] = [];
      const sync = () => {
        const startedAt = clock();
        return new Promise<void>((resolve) => {
          pending.push(() => {
            flushes.push({ startedAt, endedAt: clock() });
            resolve();
          });
        });
      };
      const flush = createLogFlush({ file: FILE, sync });
      const writer = createSqliteWriter(database, RETRY, { flush });
      const jobs: Promise<void>[] = [];
      for (const step of schedule) {
        if (step === 'turn') await turn();
        else if (step === 'end') pending.shift()?.();
        else {
          const relaxed = step === 'relaxed';
          const write = writer.run(clock, { relaxed });
          jobs.push(
            write.then((workedAt) => {
              if (!relaxed) expect(flushes.some(({ startedAt }) => startedAt > workedAt)).toBe(true);
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
        pending.shift()?.();
        await turn();
      }
      await all;
      await writer.close();
    }),
    { numRuns: 60 },
  );
});

test('R51: transactions continue during a flush, and share the next flush', async () => {
  const { pending, flush } = createHeldFlushes();
  const writer = createSqliteWriter(database, RETRY, { flush });
  const acknowledged: string[] = [];
  const write = async (name: string, relaxed = false) => {
    await writer.run(() => undefined, { relaxed });
    acknowledged.push(name);
  };
  const first = write('first');
  await expect.poll(() => pending.length).toBe(1);

  const others = [write('second'), write('third')];
  await write('relaxed', true);
  expect(acknowledged).toEqual(['relaxed']);

  pending[0]?.resolve();
  await first;
  await expect.poll(() => pending.length).toBe(2);
  expect(acknowledged).toEqual(['relaxed', 'first']);

  pending[1]?.resolve();
  await Promise.all(others);
  expect(pending).toHaveLength(2);
});

describe('a flush that fails', () => {
  test('rejects all waiting writes, and all others until the log is restarted', async () => {
    const failing = vi.fn(async () => {
      throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
    });
    const sync = vi.fn<() => Promise<void>>(async () => undefined).mockImplementationOnce(failing);
    const file = join(directory, 'some.sqlite');
    const flush = createLogFlush({ file, sync });
    let isCheckpointAllowed = false;
    const writer = createSqliteWriter(database, RETRY, {
      flush,
      afterCommit: () => {
        if (isCheckpointAllowed) checkpoints.consider();
      },
    });
    const checkpointFailed = vi.fn();
    const checkpoints = createCheckpoints({
      file,
      database,
      writer,
      flush,
      observer: { checkpointFailed: checkpointFailed },
    });
    onTestFinished(() => checkpoints.close());
    const put = () => writer.run(() => database.exec('UPDATE probe SET filler = randomblob(16)'));
    await expect(put()).rejects.toMatchObject(unavailableBy(/A flush of .*some\.sqlite-wal failed/));

    // The next flush would succeed, although the pages of the first one are not on disk.
    for (let attempt = 0; attempt < 3; attempt += 1)
      await expect(put()).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect(sync).toHaveBeenCalledTimes(1);

    isCheckpointAllowed = true;
    const generation = () => database.prepare('SELECT hex(generation) AS generation FROM log_state').get()?.generation;
    const generationBefore = generation();
    await expect
      .poll(() =>
        put().then(
          () => 'written',
          () => 'refused',
        ),
      )
      .toBe('written');
    expect(generation()).not.toBe(generationBefore);
    expect(sync).toHaveBeenCalledTimes(2);
    expect(checkpointFailed).not.toHaveBeenCalled();

    await writer.close();
  });

  test('is remembered while a reader prevents a restart of the log', async () => {
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

describe('a slow flush', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
  afterEach(() => void vi.useRealTimers());

  const newWaiter = (isProbe = false): FlushWaiter => ({ done: vi.fn(), fail: vi.fn(), isProbe });

  test('R124 fails the probe after 2 s, with the file and the time, and writes only after 10 s', async () => {
    const { pending, flush } = createHeldFlushes();
    const [write, probe] = [newWaiter(), newWaiter(true)];
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

    const late = newWaiter();
    flush.wait(late);
    expect(late.fail).toHaveBeenCalled();

    // If the flush ends later, writes are accepted again.
    pending[0]?.resolve();
    await flush.idle();
    const next = newWaiter();
    flush.wait(next);
    pending[1]?.resolve();
    await flush.idle();
    expect(next.done).toHaveBeenCalled();
  });

  test('R124 allows each write 10 s and each probe 2 s from its own start, even over several flushes', async () => {
    const { pending, flush } = createHeldFlushes();
    flush.wait(newWaiter());
    await vi.advanceTimersByTimeAsync(1_000);
    const [write, probe, late] = [newWaiter(), newWaiter(true), newWaiter()];
    flush.wait(write);
    await vi.advanceTimersByTimeAsync(7_000);
    flush.wait(probe);
    flush.wait(late);
    await vi.advanceTimersByTimeAsync(1_000);
    pending[0]?.resolve();
    await vi.advanceTimersByTimeAsync(900);
    expect(pending).toHaveLength(2);
    expect(probe.fail).not.toHaveBeenCalled();

    await vi.advanceTimersByTimeAsync(200);
    expect(probe.fail).toHaveBeenCalledOnce();

    await vi.advanceTimersByTimeAsync(800);
    expect(write.fail).not.toHaveBeenCalled();

    await vi.advanceTimersByTimeAsync(200);
    expect(write.fail).toHaveBeenCalledWith(expect.objectContaining(unavailableBy(/10000 ms/)));
    expect(late.fail).not.toHaveBeenCalled();

    pending[1]?.resolve();
    await flush.idle();
    expect(late.done).toHaveBeenCalledOnce();

    for (const { done } of [write, probe]) expect(done).not.toHaveBeenCalled();
    expect([flush.fault(), vi.getTimerCount()]).toEqual([undefined, 0]);
  });

  test('R124 is logged with its duration and file at most once a minute, and always measured', async () => {
    const observer = { flushed: vi.fn(), flushedSlowly: vi.fn() };
    const sync = () => new Promise<void>((resolve) => setTimeout(resolve, 700));
    const flush = createLogFlush({ file: FILE, sync, observer });
    for (let n = 0; n < 90; n += 1) {
      flush.wait(newWaiter());
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

describe('a slow checkpoint', () => {
  const setUp = () => {
    const file = join(directory, 'some.sqlite');
    const writer = createSqliteWriter(database, { ...RETRY, deadlineMilliseconds: 100 });
    const reason = new FlushFault(`A checkpoint of ${file} takes longer than a write may wait`);
    const probe = sqliteProbe({ database, write: writer.run }, { file, retry: RETRY, unpaused: writer.unpaused });
    onTestFinished(() => probe.close());
    return { writer, reason, probe };
  };

  test('R124 fails each job at its deadline, including the probe, while the writer is paused', async () => {
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
