import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createSqliteStore } from '../../../../src/shared/storage/sqlite/store.ts';
import type { CopyItem } from '../../../../src/shared/storage/store.ts';
import { storeContract } from '../../../support/store-contract.ts';

storeContract('the SQLite store', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  let now = 1_800_000_000_000;
  return {
    open: () => createSqliteStore({ directory, clock: () => now }),
    async elapse(milliseconds) {
      now += milliseconds;
    },
    dispose: () => rm(directory, { recursive: true }),
  };
});

test('F12: a clock that is set back makes no lease last longer than it was given for', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  let now = 1_800_000_000_000;
  const store = await createSqliteStore({ directory, clock: () => now });
  try {
    expect(await store.acquireLease('l', 'A', 4_000)).toBeGreaterThan(0);
    now -= 3_600_000;
    expect(await store.acquireLease('l', 'B', 1_000)).toBeUndefined();
    now += 3_900;
    expect(await store.acquireLease('l', 'B', 1_000)).toBeUndefined();
    now += 200;
    expect(await store.acquireLease('l', 'B', 1_000)).toBeGreaterThan(0);
  } finally {
    await store.close();
    await rm(directory, { recursive: true });
  }
});

test('an item of a copy costs about the same in a large load as in a small one', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  const store = await createSqliteStore({ directory, durable: false });
  // Few members fit in a page, so that a load changes thousands of pages.
  const index = 'm'.repeat(1_000);
  let loaded = 0;
  /** CPU microseconds of this thread for 3,000 items. */
  const costOf = async (itemsOfLoad: number): Promise<number> => {
    const items = Array.from({ length: 3_000 }, (): CopyItem => {
      loaded += 1;
      return { index, member: randomUUID(), score: loaded };
    });
    const before = process.threadCpuUsage();
    // Other writes come at the same time, as the renewals of a lease do.
    const count = () => store.increment('calls', 1, { lifetimeSeconds: 60 });
    for (let at = 0; at < items.length; at += itemsOfLoad)
      await Promise.all([count(), store.load(items.slice(at, at + itemsOfLoad)), count(), count()]);
    const { user, system } = process.threadCpuUsage(before);
    return user + system;
  };
  try {
    let [small, large] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    // By turns, so that what else the machine does makes both dearer.
    for (let round = 0; round < 3; round += 1) {
      small = Math.min(small, await costOf(200));
      large = Math.min(large, await costOf(3_000));
    }
    // With a savepoint around the load, many times as much.
    expect(large).toBeLessThan(2.5 * small);
  } finally {
    await store.close();
    await rm(directory, { recursive: true });
  }
});
