import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { storeContract } from '../../support/store-contract.ts';

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
