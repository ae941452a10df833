import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSqliteStore } from '../../src/storage/sqlite-store.ts';
import { storeContract } from '../support/store-contract.ts';

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
