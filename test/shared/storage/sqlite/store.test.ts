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

test('F12: a lease does not exceed its length if the clock is set back', async () => {
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

test('loading an item of a copy costs about the same in a large batch as in a small one', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  const store = await createSqliteStore({ directory, durable: false });
  // Only few of these members fit in a page, so a load changes thousands of pages.
  const index = 'm'.repeat(1_000);
  let loaded = 0;
  /** Returns the CPU microseconds of this thread for 3,000 items. */
  const costOf = async (batchSize: number): Promise<number> => {
    const items = Array.from({ length: 3_000 }, (): CopyItem => {
      loaded += 1;
      return { index, member: randomUUID(), score: loaded };
    });
    const usageBefore = process.threadCpuUsage();
    // Other writes happen at the same time, like the renewals of a lease.
    const count = () => store.increment('calls', 1, { lifetimeSeconds: 60 });
    for (let start = 0; start < items.length; start += batchSize)
      await Promise.all([count(), store.load(items.slice(start, start + batchSize)), count(), count()]);
    const { user, system } = process.threadCpuUsage(usageBefore);
    return user + system;
  };
  try {
    let cheapestSmallBatch = Number.POSITIVE_INFINITY;
    let cheapestLargeBatch = Number.POSITIVE_INFINITY;
    // The sizes alternate, so that other load on the machine affects both.
    for (let round = 0; round < 3; round += 1) {
      cheapestSmallBatch = Math.min(cheapestSmallBatch, await costOf(200));
      cheapestLargeBatch = Math.min(cheapestLargeBatch, await costOf(3_000));
    }
    // With a savepoint around the load, the large batch would cost many times as much.
    expect(cheapestLargeBatch).toBeLessThan(2.5 * cheapestSmallBatch);
  } finally {
    await store.close();
    await rm(directory, { recursive: true });
  }
});
