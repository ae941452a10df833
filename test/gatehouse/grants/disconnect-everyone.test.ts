/** Disconnecting every user from an app despite failures: the progress stays right, and the job ends. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ConnectionIndex, ListedConnection } from '../../../src/gatehouse/grants/connection-index.ts';
import { createDisconnectEveryone } from '../../../src/gatehouse/grants/disconnect-everyone.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { until } from '../../support/until.ts';

const NOW = 1_800_000_000_000;
const ADMINISTRATOR = { kind: 'system' } as never;

let directory: string;
let store: Store;
let listed: ListedConnection[];
/** Runs before each disconnect. */
let onDisconnect: (userId: string) => Promise<void>;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-everyone-'));
  store = await createSqliteStore({ directory, clock: () => NOW });
  listed = Array.from({ length: 25 }, (_, number) => ({ userId: `u${number}`, appId: 'platform' }));
  onDisconnect = async () => undefined;
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const createJob = () =>
  createDisconnectEveryone({
    store,
    index: {
      oldest: async (_app: string, limit: number) => listed.slice(0, limit),
      count: async () => listed.length,
    } as unknown as ConnectionIndex,
    connections: {
      async end(userId) {
        await onDisconnect(userId);
        listed = listed.filter((connection) => connection.userId !== userId);
        return { id: 'c1', revocation: 'revoked' };
      },
    },
    clock: () => NOW,
  });
const isFinished = async (job: ReturnType<typeof createJob>) =>
  (await job.progress('platform'))?.finishedAt !== undefined;

test('retries a user whose disconnect fails, and counts the others', async () => {
  let remainingFailures = 2;
  onDisconnect = async (userId) => {
    if (userId !== 'u3' || remainingFailures === 0) return;
    remainingFailures -= 1;
    throw new Error('The storage was away.');
  };
  const job = createJob();
  await job.start('platform', ADMINISTRATOR);
  await until(() => isFinished(job));

  expect(await job.progress('platform')).toMatchObject({ total: 25, done: 25, results: { revoked: 25 } });

  await job.close();
});

test('stops if all disconnects fail, and resumes later', async () => {
  let calls = 0;
  onDisconnect = async () => {
    calls += 1;
    throw new Error('The storage is away.');
  };
  const job = createJob();
  await job.start('platform', ADMINISTRATOR);
  await until(() => calls === 10);
  await job.close();

  expect(calls).toBe(10);

  onDisconnect = async () => undefined;
  const nextJob = createJob();
  await nextJob.resume();
  await until(async () => (await nextJob.progress('platform'))?.finishedAt !== undefined);

  expect(await nextJob.progress('platform')).toMatchObject({ done: 25, finishedAt: NOW });

  await nextJob.close();
});

test('a process that was suspended does not overwrite the progress of another process', async () => {
  const key = keys.disconnectJob('platform');
  const finished = {
    app: 'platform',
    startedAt: NOW,
    finishedAt: NOW,
    total: 25,
    done: 25,
    results: {},
    by: ADMINISTRATOR,
  };
  let isOvertaken = false;
  onDisconnect = async () => {
    if (isOvertaken) return;
    isOvertaken = true;
    await store.write([{ put: key, value: JSON.stringify(finished) }]);
  };
  const job = createJob();
  await job.start('platform', ADMINISTRATOR);
  await until(() => isOvertaken && listed.length === 15);
  await job.close();

  expect(await job.progress('platform')).toMatchObject({ done: 25, finishedAt: NOW });
});

test('a second start returns the running job, whose progress does not name the administrator', async () => {
  const disconnects = Promise.withResolvers<void>();
  onDisconnect = () => disconnects.promise;
  const job = createJob();
  const runningJob = { app: 'platform', startedAt: NOW, total: 25, done: 0, results: {} };

  expect(await job.progress('platform')).toBeUndefined();
  expect(await job.start('platform', ADMINISTRATOR)).toEqual(runningJob);
  expect(await job.start('platform', { kind: 'other' } as never)).toEqual(runningJob);
  expect(await job.progress('platform')).toEqual(runningJob);

  disconnects.resolve();
  await until(() => isFinished(job));

  expect(await job.progress('platform')).toEqual({
    ...runningJob,
    finishedAt: NOW,
    done: 25,
    results: { revoked: 25 },
  });

  listed = [{ userId: 'u9', appId: 'platform' }];
  expect(await job.start('platform', ADMINISTRATOR)).toEqual({ ...runningJob, total: 1 });

  await until(() => isFinished(job));
  await job.close();
});

test('ends the connections that were listed at the start, each in the name of the administrator', async () => {
  const calls: unknown[] = [];
  const listRequest = { app: '', until: 0 };
  const job = createDisconnectEveryone({
    store,
    index: {
      async oldest(app: string, limit: number, until: number) {
        Object.assign(listRequest, { app, until });
        return listed.slice(0, limit);
      },
      count: async () => 1,
      drop: async () => undefined,
    } as unknown as ConnectionIndex,
    connections: {
      async end(userId, app, context) {
        calls.push([userId, app, context]);
        listed = listed.slice(1);
        return { id: 'c1', revocation: userId === 'u0' ? 'pending' : 'unsupported' };
      },
    },
    clock: () => NOW,
  });
  listed = listed.slice(0, 3);
  await job.start('platform', ADMINISTRATOR);
  await until(() => isFinished(job));

  expect(listRequest).toEqual({ app: 'platform', until: NOW });
  expect(calls).toEqual(['u0', 'u1', 'u2'].map((userId) => [userId, 'platform', { by: ADMINISTRATOR }]));
  // The count at the start was 1, but three connections were ended.
  expect(await job.progress('platform')).toMatchObject({ total: 3, done: 3, results: { pending: 1, unsupported: 2 } });

  await job.close();
});

test('a listed connection that does not exist is dropped from the list, and not counted', async () => {
  const dropped: ListedConnection[] = [];
  const job = createDisconnectEveryone({
    store,
    index: {
      oldest: async (_app: string, limit: number) => listed.slice(0, limit),
      count: async () => listed.length,
      async drop(connection: ListedConnection) {
        dropped.push(connection);
        listed = listed.filter(({ userId }) => userId !== connection.userId);
      },
    } as unknown as ConnectionIndex,
    connections: { end: async () => undefined },
    clock: () => NOW,
  });
  listed = listed.slice(0, 2);
  await job.start('platform', ADMINISTRATOR);
  await until(() => isFinished(job));

  expect(dropped.map(({ userId, appId }) => [userId, appId])).toEqual([
    ['u0', 'platform'],
    ['u1', 'platform'],
  ]);
  expect(await job.progress('platform')).toMatchObject({ total: 2, done: 0, results: {} });

  await job.close();
});
