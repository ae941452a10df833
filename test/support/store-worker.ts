/**
 * A process for tests with several processes on one store. Does the named task and prints a line for each result.
 * Arguments: a Redis URL or the directory of a database, the task, the name of this process, and the time to start at.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../src/shared/errors.ts';
import { createRedisStore } from '../../src/shared/storage/redis/store.ts';
import {
  createSqliteStore,
  DEADLINE_MILLISECONDS,
  type SqliteObserver,
} from '../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../src/shared/storage/store.ts';

const [location = '', task = '', name = '', startAt = '0'] = process.argv.slice(2);
/** The durations of the steps of checkpoints. */
const checkpointSeconds: number[] = [];
const observer: SqliteObserver = {
  flushed(seconds, by) {
    if (by === 'checkpoint') checkpointSeconds.push(seconds);
  },
  flushedSlowly: () => undefined,
  checkpointFailed: () => undefined,
  logBytes: () => undefined,
};
const print = (line: string | number) => void process.stdout.write(`${line}\n`);

const TASKS: Record<string, (store: Store) => Promise<void>> = {
  /** Writes a record with the name of this process. */
  async sign(store) {
    await store.write([{ put: `signed by ${name}`, value: 'v' }]);
    print(name);
  },

  /** Tries to delete every ticket, and prints the numbers of those that it deleted. */
  async take(store) {
    for (let n = 0; n < 100; n += 1) {
      const ticket = await store.get(`ticket ${n}`);
      if (ticket && (await store.write([{ delete: `ticket ${n}`, ifVersion: ticket.version }]))) print(n);
    }
  },

  /** Reserves until the limit refuses, and prints each reservation. */
  async reserve(store) {
    for (;;) {
      const value = await store.increment('quota', 1, { lifetimeSeconds: 600, limit: 200 });
      if (value === undefined) return;
      print(value);
    }
  },

  /** Adds one to a record 50 times by compare-and-set. */
  async compareAndSet(store) {
    for (let done = 0; done < 50; ) {
      const record = await store.get('sum');
      const value = String(Number(record?.value ?? 0) + 1);
      if (await store.write([{ put: 'sum', value, ifVersion: record?.version ?? 0 }])) done += 1;
    }
    print('done');
  },

  /** Adds one to a record 20 times without a condition, so that only the lease excludes other processes. */
  async lease(store) {
    for (let done = 0; done < 20; ) {
      const number = await store.acquireLease('lease:{g}', name, 10_000);
      if (number === undefined) {
        await sleep(3);
        continue;
      }
      const value = Number((await store.get('sum:{g}'))?.value ?? 0);
      await sleep(1);
      const fence = { lease: 'lease:{g}', number };
      if (!(await store.write([{ put: 'sum:{g}', value: String(value + 1) }], { fence })))
        throw new Error('fenced off');
      await store.releaseLease('lease:{g}', name);
      print(number);
      done += 1;
    }
  },

  /** Closes its store and prints a line; then the process must end by itself. */
  async close(store) {
    await store.close();
    print('closed');
  },

  /** Prints the messages of the channel until its input ends. */
  async listen(store) {
    await store.subscribe('channel', print);
    print('listening');
    await new Promise((resolve) => process.stdin.once('end', resolve).resume());
  },

  /** Writes until the disk is full, and then prints the results of a write, of the probe and of a read. */
  async fill(store) {
    await store.write([{ put: 'first', value: 'kept' }]);
    let refused: unknown;
    for (let n = 0; refused === undefined && n < 1_000; n += 1) {
      await store.write([{ put: `filler ${n}`, value: 'x'.repeat(50_000) }]).catch((error: unknown) => {
        refused = error;
      });
    }
    print(codeOf(refused));
    print(codeOf(await store.ready().catch((error: unknown) => error)));
    print((await store.get('first'))?.value ?? 'lost');
  },

  /**
   * After a line on its standard input, writes 24 MB with probes in between, and prints the number of refused writes.
   */
  async grow(store) {
    await store.ready();
    print('ready');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    process.stdin.pause();
    let refused = 0;
    const writer = async (id: number) => {
      for (let n = 0; n < 200; n += 1) {
        const write = store.write([{ put: `grant:{${id}}:${n}`, value: 'x'.repeat(30_000) }]);
        await write.catch(() => {
          refused += 1;
        });
        if (n % 50 === 0) await store.ready().catch(() => undefined);
      }
    };
    await Promise.all([writer(0), writer(1), writer(2), writer(3)]);
    print(refused);
    await new Promise((resolve) => process.stdin.once('data', resolve).resume());
    process.stdin.pause();
  },

  /**
   * Fills the log until just before a checkpoint. After a line on its standard input, writes and probes for 12 s.
   * Prints the longest duration of a write and of a probe in milliseconds, and the durations of all steps of
   * checkpoints in seconds.
   */
  async outlast(store) {
    const fill = (n: number) => store.write([{ put: `grant:{fill}:${n}`, value: 'x'.repeat(200_000) }]);
    for (let n = 0; n < 18; n += 1) await fill(n);
    print('ready');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    process.stdin.pause();
    const timeOf = async (work: Promise<unknown>) => {
      const startedAt = performance.now();
      await work.catch(() => undefined);
      return performance.now() - startedAt;
    };
    const writes = [0, 1, 2, 3, 4, 5].map((n) => timeOf(fill(n)));
    const probes: Promise<number>[] = [];
    for (let n = 0; n < 24; n += 1) {
      await sleep(500);
      writes.push(timeOf(store.write([{ put: `grant:{small}:${n}`, value: 'x' }])));
      probes.push(timeOf(store.ready()));
    }
    const longest = async (times: Promise<number>[]) => Math.round(Math.max(...(await Promise.all(times))));
    print(
      JSON.stringify({ writes: await longest(writes), probes: await longest(probes), checkpoints: checkpointSeconds }),
    );
    await new Promise((resolve) => process.stdin.once('data', resolve).resume());
    process.stdin.pause();
  },

  /** Writes pairs under keys of the named kind for ever, and prints each number once its write was acknowledged. */
  async storm(store) {
    for (let n = Number((await store.get(`${name}:{p}:left`))?.value ?? 0) + 1; ; n += 1) {
      const value = String(n);
      await store.write([
        { put: `${name}:{p}:left`, value },
        { put: `${name}:{p}:filler ${n % 20}`, value: value.repeat(500) },
        { index: `${name}:{p}:numbers`, add: value, score: n },
        { put: `${name}:{p}:right`, value },
      ]);
      print(n);
    }
  },
};

function codeOf(error: unknown): string {
  return error instanceof AppError ? `${error.code} ${error.retryAfterSeconds}` : String(error);
}

// Waits until the start time, so that several processes open the database at the same moment.
while (Date.now() < Number(startAt)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 0.2);
// The task that measures durations uses the deadline of a server.
const deadlineMilliseconds = task === 'outlast' ? DEADLINE_MILLISECONDS : 10_000;
const store = location.startsWith('redis:')
  ? await createRedisStore({ url: location, durability: 'none', deadlineMilliseconds })
  : await createSqliteStore({ directory: location, deadlineMilliseconds, observer });
await TASKS[task]?.(store);
await store.close();
