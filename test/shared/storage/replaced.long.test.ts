/** R126: real processes whose storage is emptied, replaced or changed while they run, and then restored. */
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, type TestContext, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import { retryWhileUnavailable } from '../../../src/shared/storage/retry.ts';
import { type Crowd, type CrowdUser, startCrowd } from '../../support/crowd.ts';
import type { Member, StoreKind } from '../../support/fleet.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { APPEND_ONLY, missingRedis, type RedisServer, startCluster } from '../../support/redis-server.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';

/** The promised time, and the delay of timers on a busy machine. */
const NOTICED_MS = 10_000 + 2_000;

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface RunningProcess {
  crowd: Crowd;
  member: Member;
  person: CrowdUser;
}

async function start(kind: StoreKind, otherRedis?: Record<string, string>): Promise<RunningProcess> {
  const crowd = await startCrowd({ kind, processes: 1, users: 3, ...(otherRedis && { otherRedis }) });
  closers.push(() => crowd.close());
  const [person] = crowd.users;
  if (!person) throw new Error('There are no users.');
  expect((await crowd.thread(crowd.member(0), person)).status).toBe(200);
  return { crowd, member: crowd.member(0), person };
}

function redisOf({ crowd }: RunningProcess): RedisServer {
  if (!crowd.redis) throw new Error('There is no Redis.');
  return crowd.redis;
}

const readReadiness = async ({ crowd, member }: RunningProcess) =>
  JSON.parse((await crowd.callManagement(member, '/readyz')).body);

async function readGauge({ crowd, member }: RunningProcess, name: string): Promise<number> {
  const { body } = await crowd.callManagement(member, '/metrics');
  return Number(
    body
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.split(' ')[1],
  );
}

/** Sends no request that uses the storage: it reads only the gauges. */
async function untilNoticed(started: RunningProcess, reason: 'replaced' | 'unfit'): Promise<void> {
  const elapsed = startStopwatch();
  await until(async () => (await readGauge(started, `gatehouse_storage_refused{reason="${reason}"}`)) === 1);
  expect(elapsed()).toBeLessThan(NOTICED_MS);
  expect(await readGauge(started, 'gatehouse_ready')).toBe(0);
  expect(await readReadiness(started)).toMatchObject({ ready: false, reason });
  const line = new RegExp(`"reason":"${reason}".*"msg":"storage lost"`);
  await until(async () => line.test(started.crowd.output()));
}

/** Expects that every kind of route responds with 503 while the process keeps running. */
async function expectAllRefused({ crowd, member, person }: RunningProcess): Promise<void> {
  const refused = [
    await crowd.thread(member, person),
    await crowd.get(member, '/session', person),
    await crowd.get(member, '/admin/api/overview', person),
    await crowd.post(member, '/sign-out', person),
    await crowd.post(member, '/connections/platform/disconnect', person),
    await sendRequest(`${member.url}/relay/threads/current`, {
      headers: { ...ACCEPT_JSON, authorization: 'Bearer gh_relay_x' },
    }),
  ];
  const results = refused.map(({ status, body }) => [status, JSON.parse(body).code]);
  expect(results.slice(0, 5)).toEqual(Array(5).fill([503, 'storage_unavailable']));
  expect((await crowd.callManagement(member, '/healthz')).status).toBe(200);
  expect(member.isRunning()).toBe(true);
}

async function expectRecovered(started: RunningProcess): Promise<void> {
  const { crowd, member, person } = started;
  await until(async () => (await readGauge(started, 'gatehouse_ready')) === 1);
  expect((await crowd.thread(member, person)).status).toBe(200);
  await until(async () => crowd.output().includes('"msg":"storage is back"'));
}

const onRedis = (name: string, work: () => Promise<void>) =>
  test(name, async (context: TestContext) => {
    skipIfMissing(context, missingRedis);
    await work();
  });

describe('R126 a process whose storage', () => {
  onRedis(
    'is emptied (FLUSHALL) is not ready within 10 s, refuses all requests with 503, and writes nothing to it',
    async () => {
      const started = await start('Redis');
      const { crowd, member, person } = started;
      const redis = redisOf(started);
      redis.sendCommand('FLUSHALL');
      await untilNoticed(started, 'replaced');
      redis.sendCommand('FLUSHALL');
      await expectAllRefused(started);
      crowd.provider.lifetimeSeconds = 1;
      const refreshes = crowd.provider.refreshes();
      // Scheduled tasks run every few seconds; the probe every second.
      await new Promise((resolve) => setTimeout(resolve, 8_000));
      expect([redis.sendCommand('DBSIZE').trim(), crowd.provider.refreshes()]).toEqual(['0', refreshes]);
      // A new start accepts the empty storage.
      await member.kill();
      await member.start();
      expect((await crowd.thread(member, person)).status).toBe(401);
    },
  );

  onRedis('is emptied responds with 503 from the first request on, and never with 401', async () => {
    const started = await start('Redis');
    const { crowd, member, person } = started;
    redisOf(started).sendCommand('FLUSHALL');
    const statuses = [];
    for (let n = 0; n < 20; n += 1) statuses.push((await crowd.thread(member, person)).status);
    expect(new Set(statuses)).toEqual(new Set([503]));
  });

  onRedis('is restarted on an empty volume refuses all requests until the volume is mounted again', async () => {
    const started = await start('Redis');
    const { crowd, member, person } = started;
    const redis = redisOf(started);
    const folder = join(redis.directory, 'appendonlydir');
    await redis.kill();
    renameSync(folder, join(redis.directory, 'aside'));
    await redis.start(APPEND_ONLY);
    const statuses: number[] = [];
    await until(async () => {
      statuses.push((await crowd.thread(member, person)).status);
      return (await readReadiness(started)).reason === 'replaced';
    });
    expect(new Set(statuses)).toEqual(new Set([503]));
    await untilNoticed(started, 'replaced');
    await expectAllRefused(started);
    expect(redis.sendCommand('DBSIZE').trim()).toBe('0');
    await redis.kill();
    rmSync(folder, { recursive: true });
    renameSync(join(redis.directory, 'aside'), folder);
    await redis.start(APPEND_ONLY);
    await expectRecovered(started);
    // The event is in the audit trail once the audit trail can be written again.
    const trail = async () => (await crowd.storage.store.readLog(keys.auditLog, { limit: 200 })).items;
    await until(async () => (await trail()).some(({ entry }) => JSON.parse(entry).event === 'storage.refused'));
  });

  onRedis('may evict keys, or has no append-only file, refuses all requests until it is fixed', async () => {
    const started = await start('Redis');
    const redis = redisOf(started);
    for (const [name, wrong, right] of [
      ['maxmemory-policy', 'allkeys-lru', 'noeviction'],
      ['appendonly', 'no', 'yes'],
    ] as const) {
      redis.sendCommand('CONFIG', 'SET', name, wrong);
      await untilNoticed(started, 'unfit');
      expect((await readReadiness(started)).detail).toContain(name);
      await expectAllRefused(started);
      redis.sendCommand('CONFIG', 'SET', name, right);
      await expectRecovered(started);
    }
  });

  onRedis('lost the data of one master of the cluster refuses all requests', async () => {
    const nodes = await startCluster(3);
    closers.push(() => Promise.all(nodes.map((node) => node.dispose())));
    const started = await start('Redis', { REDIS_CLUSTER: nodes.map(({ port }) => `127.0.0.1:${port}`).join(',') });
    for (const node of nodes.slice(1)) {
      const servingNode = node.sendCommand('GET', 'schema').includes('MOVED') ? node : undefined;
      if (!servingNode) continue;
      servingNode.sendCommand('FLUSHALL');
      await untilNoticed(started, 'replaced');
      return;
    }
  });

  test.each(['SQLite', 'Redis'] as const)('has another identity refuses all requests (%s)', async (kind) => {
    const started = await start(kind);
    const { crowd } = started;
    const { store } = crowd.storage;
    const schemaBefore = await retryWhileUnavailable(() => store.get(keys.schema));
    const put = (value: string) => retryWhileUnavailable(() => store.write([{ put: keys.schema, value }]));
    await put(JSON.stringify({ ...JSON.parse(schemaBefore?.value ?? ''), identity: 'another' }));
    await untilNoticed(started, 'replaced');
    await expectAllRefused(started);

    await put(schemaBefore?.value ?? '');
    await expectRecovered(started);
  });
});
