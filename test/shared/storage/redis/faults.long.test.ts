/** The Redis store when its server is killed, frozen, full, made a replica, or unfit for use. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { AppError } from '../../../../src/shared/errors.ts';
import type { RedisDurability } from '../../../../src/shared/storage/redis/admission.ts';
import { toStoreError } from '../../../../src/shared/storage/redis/faults.ts';
import { createRedisStore, type RedisStoreOptions } from '../../../../src/shared/storage/redis/store.ts';
import type { Store } from '../../../../src/shared/storage/store.ts';
import { appendTo } from '../../../support/append-to.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { freePort } from '../../../support/ports.ts';
import { startHoldingProxy } from '../../../support/redis-proxy.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis } from '../../../support/redis-server.ts';
import { startStopwatch } from '../../../support/stopwatch.ts';
import { until } from '../../../support/until.ts';

const UNAVAILABLE = { code: 'storage_unavailable', status: 503 };
const openedStores: { close(): Promise<void> }[] = [];
const startedServers: RedisServer[] = [];

beforeEach((context) => skipIfMissing(context, missingRedis));

afterEach(async () => {
  for (const store of openedStores.splice(0)) await store.close();
  for (const server of startedServers.splice(0)) await server.dispose();
});

async function start(args?: readonly string[]): Promise<RedisServer> {
  const server = await startRedis(args);
  startedServers.push(server);
  return server;
}

async function open(server: RedisServer, options: Partial<RedisStoreOptions> = {}): Promise<Store> {
  const store = await createRedisStore({ url: server.url, durability: 'none', ...options });
  openedStores.push(store);
  return store;
}

/** Returns the milliseconds until the call rejected with storage_unavailable. */
async function refusalTime(call: Promise<unknown>): Promise<number> {
  const elapsed = startStopwatch();
  await expect(call).rejects.toMatchObject(UNAVAILABLE);
  return elapsed();
}

/** Returns the milliseconds until the store accepts writes again. */
function recoveryTime(store: Store): Promise<number> {
  return until(() =>
    store.ready().then(
      () => true,
      () => false,
    ),
  );
}

/**
 * The number of connections that listen on a channel. Does not block the event loop, since the store must hear Redis.
 */
async function countSubscribers({ url }: RedisServer): Promise<number> {
  const client = new Redis(url);
  const [channel] = (await client.pubsub('CHANNELS')) as string[];
  const count = channel === undefined ? 0 : (await client.pubsub('NUMSUB', channel)).at(-1);
  client.disconnect();
  return Number(count);
}

describe('F4: a server that is killed under load', () => {
  test('makes calls reject within 500 ms, loses no acknowledged write, and is used again within 2 s', async () => {
    const server = await start();
    const store = await open(server, { durability: 'aof' });
    const acknowledged = new Map<string, number>();
    const callTimes: number[] = [];
    let running = true;
    onTestFinished(() => {
      running = false;
    });
    const workers = Array.from({ length: 20 }, async (_, worker) => {
      const key = `worker ${worker}`;
      for (let n = 1; running; n += 1) {
        const took = startStopwatch();
        const done = await store.write([{ put: key, value: String(n) }]).catch((error: unknown) => error);
        callTimes.push(took());
        if (typeof done === 'number') acknowledged.set(key, n);
        else expect(done).toMatchObject(UNAVAILABLE);
        if (typeof done !== 'number') await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
    await until(() => acknowledged.size === 20 && (acknowledged.get('worker 0') ?? 0) > 50);
    await server.kill();
    const refusals = await Promise.all([store.get('a'), store.count('a'), store.ready()].map(refusalTime));
    running = false;
    await Promise.all(workers);
    expect(Math.max(...refusals, ...callTimes)).toBeLessThan(500);

    await server.start();
    expect(await recoveryTime(store)).toBeLessThan(2_000);

    for (const [key, n] of acknowledged) expect(Number((await store.get(key))?.value)).toBeGreaterThanOrEqual(n);
  });

  test('F8: and restarted serves the first request of every open store, and delivers the first message', async () => {
    const server = await start();
    const stores = await Promise.all(Array.from({ length: 5 }, () => open(server)));
    await stores[0]?.write([{ put: 'a', value: '1' }]);
    const received: string[] = [];
    await stores[1]?.subscribe('c', (message) => received.push(message));
    const connections = server.sendCommand('CLIENT', 'LIST').trim().split('\n').length;
    await server.kill();
    await server.start();
    await until(async () => (await countSubscribers(server)) === 1);
    // The handshake is over: its last command is INFO.
    await until(() => {
      const lines = server.sendCommand('CLIENT', 'LIST').trim().split('\n');
      return lines.length === connections && lines.every((line) => /cmd=(client\||subscribe|ping)/.test(line));
    });
    const values = await Promise.all(stores.map((store) => store.get('a')));
    expect(values.map((record) => record?.value)).toEqual(['1', '1', '1', '1', '1']);

    await stores[0]?.publish('c', 'after');
    await expect.poll(() => received).toEqual(['after']);
  });

  test('F5: and restarted empty, if allowed, continues with new versions and refuses the fence of a lost lease', async () => {
    const server = await start(IN_MEMORY);
    const store = await open(server);
    await store.write([{ put: 'a:{t}', value: '1' }]);
    const version = (await store.get('a:{t}'))?.version ?? 0;
    const number = (await store.acquireLease('l:{t}', 'A', 60_000)) ?? 0;
    await server.kill();
    await server.start();
    await recoveryTime(store);
    expect(await store.get('a:{t}')).toBeUndefined();
    expect(await store.write([{ put: 'a:{t}', value: '2' }], { fence: { lease: 'l:{t}', number } })).toBeUndefined();

    await store.write([{ put: 'a:{t}', value: '2' }]);
    expect((await store.get('a:{t}'))?.version).toBeGreaterThan(version);
  });
});

describe('F6: a server that does not respond', () => {
  test.each([
    ['paused', (server: RedisServer) => void server.sendCommand('CLIENT', 'PAUSE', '4000', 'ALL')],
    ['stopped', (server: RedisServer) => server.signal('SIGSTOP')],
  ])(
    'because it is %s delays only the first calls until the deadline, and is used again within 2 s',
    async (_, freeze) => {
      const server = await start();
      const store = await open(server, { deadlineMilliseconds: 1_000 });
      await store.write([{ put: 'a', value: '1' }]);
      freeze(server);
      const frozenAt = performance.now();
      const refusals = await Promise.all([store.get('a'), store.count('b'), store.ready()].map(refusalTime));
      expect(performance.now() - frozenAt).toBeGreaterThan(950);
      expect(Math.max(...refusals)).toBeLessThan(1_200);

      // Ends before the pause of the server. No call waits for the deadline again; the median excludes delays of a busy
      // machine.
      const laterRefusals: number[] = [];
      while (laterRefusals.length < 50 && performance.now() - frozenAt < 3_000) {
        laterRefusals.push(await refusalTime(store.get('a')));
        await sleep(30);
      }
      expect(Math.max(...laterRefusals)).toBeLessThan(500);
      expect(laterRefusals.sort((a, b) => a - b)[laterRefusals.length >> 1]).toBeLessThan(100);

      server.signal('SIGCONT');
      await until(() => server.sendCommand('PING').startsWith('PONG'));
      expect(await recoveryTime(store)).toBeLessThan(2_000);
      expect((await store.get('a'))?.value).toBe('1');
    },
  );

  test('F25: for less than the deadline, several times, refuses no write', async () => {
    const server = await start();
    const store = await open(server);
    const pauses = Array.from({ length: 5 }, async (_, n) => {
      await sleep(n * 600);
      server.sendCommand('CLIENT', 'PAUSE', '400', 'ALL');
    });
    let running = true;
    const refusals: unknown[] = [];
    const workers = Array.from({ length: 10 }, async (_, worker) => {
      for (let n = 0; running; n += 1)
        await store.write([{ put: `worker ${worker}`, value: String(n) }]).catch((error) => refusals.push(error));
    });
    await Promise.all(pauses);
    running = false;
    await Promise.all(workers);
    expect(refusals).toEqual([]);
  });

  test('keeps a bounded number of commands waiting', async () => {
    const server = await start();
    const store = await open(server, { deadlineMilliseconds: 300 });
    server.signal('SIGSTOP');
    const calls = Array.from({ length: 10_000 }, () => store.get('a').catch((error: unknown) => error));
    const errors = await Promise.all(calls);
    const refused = errors.filter((error) => error instanceof AppError && /^Too many/.test(error.logDetail ?? ''));
    expect(refused).toHaveLength(10_000 - 8_192);

    server.signal('SIGCONT');
    expect(await recoveryTime(store)).toBeLessThan(2_000);
  });

  test('is not confused with a stall of this process', async () => {
    const store = await open(await start(), { deadlineMilliseconds: 300 });
    const call = store.get('a');
    await new Promise((resolve) => setImmediate(resolve));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_600);
    await expect(call).resolves.toBeUndefined();
    await expect(store.get('a')).resolves.toBeUndefined();
  });

  test('F8: on an idle connection is replaced before the next request', async () => {
    const server = await start();
    const proxy = await startHoldingProxy(server.port);
    openedStores.push(proxy);
    const store = await open(server, { url: `redis://127.0.0.1:${proxy.port}` });
    const received: string[] = [];
    await store.subscribe('c', (message) => received.push(message));
    const count = proxy.countUnheld();
    proxy.holdOpenConnections();
    await until(() => proxy.countUnheld() === count);
    // The server still has the subscription of the dead connection.
    await until(async () => (await countSubscribers(server)) === 2);
    // The request is refused at once, during the handshake of the new connection. On the dead one it would fail later.
    const isConnected = async () => {
      const error = await store.write([{ put: 'a', value: '1' }]).then(
        () => undefined,
        (reason: AppError) => reason,
      );
      expect(error?.logDetail ?? '').toMatch(/^($|There is no connection to Redis)/);
      return error === undefined;
    };
    await until(isConnected);
    await store.publish('c', '1');
    await expect.poll(() => received).toEqual(['1']);
  });

  test('does not apply a timed-out write after the next response, even if the network delivers it late', async () => {
    // A slow disk must not use up the deadline.
    const server = await start(IN_MEMORY);
    const proxy = await startHoldingProxy(server.port);
    openedStores.push(proxy);
    const store = await open(server, { url: `redis://127.0.0.1:${proxy.port}`, deadlineMilliseconds: 300 });
    await store.write([{ put: 'a', value: 'first' }]);
    proxy.holdOpenConnections();
    await refusalTime(store.write([{ put: 'a', value: 'given up' }]));
    await recoveryTime(store);
    expect(await store.write([{ put: 'a', value: 'second' }])).toBeDefined();

    proxy.release();
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect((await store.get('a'))?.value).toBe('second');
  });
});

test('F7: a server that becomes a replica refuses writes and the probe, can be read, and is used again within 2 s', async () => {
  const server = await start();
  const store = await open(server);
  await store.write([{ put: 'a', value: '1' }]);
  server.sendCommand('REPLICAOF', '127.0.0.1', String(await freePort()));
  expect(await refusalTime(store.write([{ put: 'a', value: '2' }]))).toBeLessThan(500);

  await until(() =>
    store.get('a').then(
      (record) => record?.value === '1',
      () => false,
    ),
  );
  await expect(store.ready()).rejects.toMatchObject({ ...UNAVAILABLE, logDetail: 'Redis responded READONLY' });

  server.sendCommand('REPLICAOF', 'NO', 'ONE');
  expect(await recoveryTime(store)).toBeLessThan(2_000);
  expect(await store.write([{ put: 'a', value: '3' }])).toBeDefined();
});

test('F7: after a failover behind one address, the store leaves the old master, which refuses writes', async () => {
  const master = await start();
  const replica = await start(['--replicaof', '127.0.0.1', String(master.port)]);
  const proxy = await startHoldingProxy(master.port);
  openedStores.push(proxy);
  const store = await open(master, { url: `redis://127.0.0.1:${proxy.port}` });
  await store.write([{ put: 'a', value: '1' }]);
  await until(() => /:1\n$/.test(replica.sendCommand('GET', 'a')));
  replica.sendCommand('REPLICAOF', 'NO', 'ONE');
  proxy.redirect(replica.port);
  master.sendCommand('REPLICAOF', '127.0.0.1', String(replica.port));
  expect(await recoveryTime(store)).toBeLessThan(2_000);
  expect(await store.write([{ put: 'a', value: '2' }])).toBeDefined();
  expect(replica.sendCommand('GET', 'a')).toMatch(/:2\n$/);
});

test('a server without memory refuses whole writes and the probe, and can be read', async () => {
  const server = await start();
  const store = await open(server);
  await store.write([{ put: 'a:{t}', value: '1' }]);
  server.sendCommand('CONFIG', 'SET', 'maxmemory', '1');
  const full = { ...UNAVAILABLE, retryAfterSeconds: 30 };
  await expect(store.write([{ put: 'a:{t}', value: '2' }])).rejects.toMatchObject(full);
  expect((await store.get('a:{t}'))?.value).toBe('1');

  // Without memory, deleting is allowed: a write that begins with a deletion must not be applied in part.
  await Promise.allSettled([store.write([{ delete: 'a:{t}' }, { put: 'b:{t}', value: '2' }])]);
  const storedRecords = [await store.get('a:{t}'), await store.get('b:{t}')];
  expect(storedRecords.filter((record) => record !== undefined)).toHaveLength(1);
  await expect(store.ready()).rejects.toMatchObject(full);

  server.sendCommand('CONFIG', 'SET', 'maxmemory', '0');
  await expect(store.ready()).resolves.toBeUndefined();
});

describe('F5, R51: at the start', () => {
  const lru = ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'];
  test.each<[string, RedisDurability, string[], RegExp | undefined]>([
    ['an append-only file', 'aof', ['--appendonly', 'yes'], undefined],
    ['no persistence', 'aof', IN_MEMORY, /has no append-only file/],
    ['no persistence', 'replicas', IN_MEMORY, /has no connected replica/],
    ['no persistence', 'none', IN_MEMORY, undefined],
    ['an append-only file but eviction', 'aof', ['--appendonly', 'yes', ...lru], /may delete grants and sessions/],
    ['eviction', 'replicas', lru, /may delete grants and sessions/],
    ['eviction', 'none', lru, /may delete grants and sessions/],
    [
      'eviction of keys with a lifetime',
      'none',
      ['--maxmemory-policy', 'volatile-ttl'],
      /may delete grants and sessions/,
    ],
  ])('a server with %s under REDIS_DURABILITY=%s', async (_, durability, args, refusal) => {
    const server = await start(args);
    const opening = createRedisStore({ url: server.url, durability });
    if (refusal === undefined) openedStores.push(await opening);
    else
      await expect(opening).rejects.toMatchObject({ name: 'StorageRefused', message: expect.stringMatching(refusal) });
    if (refusal !== undefined) await until(() => server.sendCommand('CLIENT', 'LIST').trim().split('\n').length === 1);
  });

  test('the message contains the remedy', async () => {
    const server = await start(IN_MEMORY);
    await expect(open(server, { durability: 'aof' })).rejects.toThrow(/Set appendonly to yes, or set REDIS_DURABILITY/);
    server.sendCommand('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    await expect(open(server)).rejects.toThrow(/maxmemory-policy is allkeys-lru\. Set maxmemory-policy to noeviction/);
  });

  test('an unreachable server is storage_unavailable, with the cause', async () => {
    const opening = createRedisStore({ url: `redis://127.0.0.1:${await freePort()}`, durability: 'none' });
    await expect(opening).rejects.toMatchObject({ ...UNAVAILABLE, cause: { code: 'ECONNREFUSED' } });
  });
});

describe('REDIS_DURABILITY=replicas:', () => {
  test('a write is acknowledged once the replica has it, and rejected if no replica confirms it', async () => {
    const master = await start();
    const replica = await start(['--replicaof', '127.0.0.1', String(master.port)]);
    await until(() => master.sendCommand('INFO', 'replication').includes('state=online'));
    const store = await open(master, { durability: 'replicas', deadlineMilliseconds: 2_000 });
    await recoveryTime(store);
    const names = Array.from({ length: 100 }, (_, n) => `k${n}`);
    await Promise.all(names.map((name) => store.write([{ put: name, value: name }])));
    expect(names.filter((name) => !replica.sendCommand('GET', name).trim().endsWith(`:${name}`))).toEqual([]);

    replica.signal('SIGSTOP');
    const calls = [
      store.write([{ put: 'a', value: '1' }]),
      store.write([{ delete: 'k0' }]),
      store.acquireLease('l', 'A', 1_000),
      appendTo(store, 'log', 'entry', 1),
      store.ready(),
    ];
    const later = new Promise((resolve) => setTimeout(resolve, 1_200)).then(() => refusalTime(store.ready()));
    // As on a busy machine, the master also responds late, at about the deadline of the first writes.
    const late = sleep(1_800).then(async () => {
      master.signal('SIGSTOP');
      await sleep(220);
      master.signal('SIGCONT');
    });
    for (const time of await Promise.all(calls.map(refusalTime))) expect(time).toBeLessThan(2_200);
    expect(await later).toBeLessThan(1_200);

    await late;
    // No write waits until the replica has caught up.
    for (let n = 0; n < 20; n += 1) expect(await refusalTime(store.ready())).toBeLessThan(100);
    // Reads and counters do not wait for the replica.
    expect((await store.get('k1'))?.value).toBe('k1');
    expect(await store.increment('c', 1, { lifetimeSeconds: 60 })).toBe(1);

    replica.signal('SIGCONT');
    expect(await recoveryTime(store)).toBeLessThan(2_000);
    expect(await store.write([{ put: 'a', value: '2' }])).toBeDefined();
  });
});

describe('when the server’s clock steps back,', () => {
  const FUTURE = 8_000_000_000_000_000;

  test('versions continue from the last version of the record, even after its deletion', async () => {
    const server = await start();
    const store = await open(server);
    const endings: Record<string, (key: string) => Promise<unknown>> = {
      replaced: async () => {},
      deleted: (key) => store.write([{ delete: key }]),
    };
    for (const [key, end] of Object.entries(endings)) {
      server.sendCommand('SET', key, `${FUTURE}:from before the step`);
      const versions: number[] = [];
      for (let n = 0; n < 2; n += 1) {
        await end(key);
        await store.write([{ put: key, value: 'x' }]);
        versions.push((await store.get(key))?.version ?? 0);
      }
      expect(versions, key).toEqual([FUTURE + 1, FUTURE + 2]);
    }
  });

  test('fencing numbers continue, and a lease does not exceed its length', async () => {
    const server = await start();
    const store = await open(server);
    const lease = ['owner', 'A', 'number', String(FUTURE), 'until', String(FUTURE), 'length', '400'];
    server.sendCommand('HSET', 'l', ...lease);
    expect(await store.acquireLease('l', 'B', 1_000)).toBeUndefined();

    await new Promise((resolve) => setTimeout(resolve, 450));
    expect(await store.acquireLease('l', 'B', 1_000)).toBe(FUTURE + 1);
  });
});

describe('errors', () => {
  const replyError = (message: string) =>
    Object.assign(new Error(message), { name: 'ReplyError', command: { name: 'set', args: ['a', 'secret'] } });

  test.each([
    'READONLY You cannot',
    'OOM command',
    'LOADING Redis',
    'CLUSTERDOWN x',
    'MASTERDOWN x',
    'MISCONF x',
    'NOAUTH x',
  ])('%s is storage_unavailable, and its cause does not contain the value of the write', (message) => {
    const error = toStoreError(replyError(message));
    expect(error).toMatchObject({ ...UNAVAILABLE, cause: { message } });
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('secret');
    expect(error).not.toHaveProperty('cause.command');
  });

  test('a mistake in a command is not converted, and does not contain the value of the write', () => {
    for (const message of ['WRONGTYPE Operation', 'CROSSSLOT Keys', 'ERR syntax error']) {
      const mistake = replyError(message);
      expect(toStoreError(mistake)).toBe(mistake);
      expect(mistake).not.toHaveProperty('command');
    }
    expect(toStoreError(replyError('ERR max number of clients reached'))).toMatchObject(UNAVAILABLE);
    expect(toStoreError(new Error('Connection is closed.'))).toMatchObject(UNAVAILABLE);
  });
});

test('a write with a key of another kind changes nothing', async () => {
  const store = await open(await start());
  await store.write([{ put: 'record:{t}', value: '1' }]);
  const write = store.write([
    { put: 'a:{t}', value: 'must not stay' },
    { index: 'record:{t}', add: 'm', score: 1 },
  ]);
  await expect(write).rejects.toThrow(/WRONGTYPE/);
  expect(await store.get('a:{t}')).toBeUndefined();
});

test('expired and deleted data leaves no key without a lifetime', async () => {
  const server = await start();
  const store = await open(server);
  await store.write([{ put: 'a', value: '1', lifetimeSeconds: 1 }]);
  await store.increment('c', 1, { lifetimeSeconds: 1 });
  await store.acquireLease('l', 'A', 1_000);
  await store.releaseLease('l', 'A');
  await store.write([{ put: 'b', value: '1' }]);
  await store.write([{ delete: 'b' }]);
  await store.ready();
  const client = new Redis(server.port);
  const keys = await client.keys('*');
  const lifetimes = await Promise.all(keys.map(async (key) => [key, await client.pttl(key)] as const));
  await client.quit();
  expect(lifetimes.filter(([, life]) => life === -1)).toEqual([]);
  expect(keys).toContain('l');
  // A lease is remembered for a day, so that a stale holder is refused.
  expect(new Map(lifetimes).get('l')).toBeGreaterThan(86_000_000);
});

test('a message reaches the other listeners if one of them throws', async () => {
  const store = await open(await start());
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const received: string[] = [];
  await store.subscribe('c', () => {
    throw new Error('listener failed');
  });
  await store.subscribe('c', (message) => received.push(message));
  await store.publish('c', '1');
  await expect.poll(() => received).toEqual(['1']);
  expect(warn).toHaveBeenCalledOnce();

  warn.mockRestore();
});
