/** One process of the tests that need several on one Redis: does the named task and prints a line for each result. */

import { setTimeout as sleep } from 'node:timers/promises';
import { createRedisStore } from '../../src/storage/redis/store.ts';
import type { Store } from '../../src/storage/store.ts';

const [url = '', task = '', name = ''] = process.argv.slice(2);
const print = (line: string | number) => void process.stdout.write(`${line}\n`);

const TASKS: Record<string, (store: Store) => Promise<void>> = {
  /** Takes every key of the round and prints those it got. */
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

  /** Adds one to a record 20 times without a condition: only the lease keeps the processes apart. */
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

  /** Closes its store and says so; then it has only to end. */
  async close(store) {
    await store.close();
    print('closed');
  },

  /** Prints what it hears on the channel until it is ended. */
  async listen(store) {
    await store.subscribe('channel', print);
    print('listening');
    await new Promise((resolve) => process.stdin.once('end', resolve).resume());
  },
};

const store = await createRedisStore({ url, durability: 'none', deadlineMilliseconds: 10_000 });
await TASKS[task]?.(store);
await store.close();
