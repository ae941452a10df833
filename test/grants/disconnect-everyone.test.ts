/** Disconnecting everybody from an app where something goes wrong on the way: what is told stays true, and it ends. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ConnectionIndex, ListedConnection } from '../../src/grants/connection-index.ts';
import { createDisconnectEveryone } from '../../src/grants/disconnect-everyone.ts';
import { keys } from '../../src/storage/keys.ts';
import { createSqliteStore } from '../../src/storage/sqlite/store.ts';
import type { Store } from '../../src/storage/store.ts';
import { until } from '../support/until.ts';

const NOW = 1_800_000_000_000;
const BY = { kind: 'system' } as never;

let directory: string;
let store: Store;
let listed: ListedConnection[];
/** What disconnecting a user does beside it. */
let beside: (userId: string) => Promise<void>;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-everyone-'));
  store = await createSqliteStore({ directory, clock: () => NOW });
  listed = Array.from({ length: 25 }, (_none, at) => ({ userId: `u${at}`, appId: 'platform' }));
  beside = async () => undefined;
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const everyone = () =>
  createDisconnectEveryone({
    store,
    index: {
      oldest: async (_app: string, limit: number) => listed.slice(0, limit),
      count: async () => listed.length,
    } as unknown as ConnectionIndex,
    connections: {
      async end(userId) {
        await beside(userId);
        listed = listed.filter((one) => one.userId !== userId);
        return { revocation: 'revoked' };
      },
    },
    clock: () => NOW,
  });
const isFinished = async (job: ReturnType<typeof everyone>) =>
  (await job.progress('platform'))?.finishedAt !== undefined;

test('one whom it fails for is tried again, and the others are counted all the same', async () => {
  let failures = 2;
  beside = async (userId) => {
    if (userId === 'u3' && failures-- > 0) throw new Error('The storage was away.');
  };
  const job = everyone();
  await job.start('platform', BY);
  await until(() => isFinished(job));
  expect(await job.progress('platform')).toMatchObject({ total: 25, done: 25, answers: { revoked: 25 } });
  await job.settle();
});

test('where it fails for all it stops, and is gone on with later', async () => {
  let calls = 0;
  beside = async () => {
    calls += 1;
    throw new Error('The storage is away.');
  };
  const job = everyone();
  await job.start('platform', BY);
  await until(() => calls === 10);
  await job.settle();
  expect(calls).toBe(10);
  beside = async () => undefined;
  const next = everyone();
  await next.resume();
  expect(await next.progress('platform')).toMatchObject({ done: 25, finishedAt: NOW });
});

test('a process that was stopped for long does not write over what another has done', async () => {
  const key = keys.disconnectJob('platform');
  const finished = { app: 'platform', startedAt: NOW, finishedAt: NOW, total: 25, done: 25, answers: {}, by: BY };
  let reached = false;
  beside = async () => {
    if (reached) return;
    reached = true;
    await store.write([{ put: key, value: JSON.stringify(finished) }]);
  };
  const job = everyone();
  await job.start('platform', BY);
  await until(() => reached && listed.length === 15);
  await job.settle();
  expect(await job.progress('platform')).toMatchObject({ done: 25, finishedAt: NOW });
});
