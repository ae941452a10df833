/** The counts of lookups in one process. `commands.test.ts` tests them over HTTP. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createBinTally } from '../../../src/gatehouse/bin/tally.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

let directory: string;
let store: Store;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'bin-tally-'));
  store = await createSqliteStore({ directory });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

test('every report includes all earlier lookups, even while a flush is writing them', async () => {
  const tally = createBinTally({ store, clock: Date.now });
  tally.lookedUp('service', 3);
  tally.serviceResponded('timeout');
  const reports = await Promise.all([tally.report(), tally.report(), tally.report()]);
  expect(reports.map(({ outcomes, service }) => [outcomes.service, service.lastFailure])).toEqual(
    Array(3).fill([3, 'timeout']),
  );
  await tally.close();
});

test('R119 lookups and the health of the service survive failed writes', async () => {
  let isDown = true;
  const fail = () => Promise.reject(new AppError('storage_unavailable'));
  const storeWithOutages: Store = {
    ...store,
    increment: (...args) => (isDown ? fail() : store.increment(...args)),
    write: (...args) => (isDown ? fail() : store.write(...args)),
  };
  const lostCounts: number[] = [];
  const tally = createBinTally({
    store: storeWithOutages,
    clock: Date.now,
    onLost: (counts) => void lostCounts.push(counts),
  });
  tally.lookedUp('service', 3);
  tally.cacheRead(true);
  tally.serviceResponded('timeout');
  // The report includes counts that are not stored yet.
  expect(await tally.report()).toMatchObject({ outcomes: { service: 3 }, cache: { hits: 1 } });
  tally.lookedUp('service', 2);
  isDown = false;
  expect(await tally.report()).toMatchObject({
    outcomes: { service: 5 },
    cache: { hits: 1 },
    service: { lastFailure: 'timeout' },
  });
  isDown = true;
  tally.lookedUp('dataset', 4);
  await tally.close();
  expect(lostCounts).toEqual([4]);
});
