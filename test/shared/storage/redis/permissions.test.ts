/** A user of Redis that lacks a command, keys or channels (ACL): the refusal names it. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { AppError } from '../../../../src/shared/errors.ts';
import { createRedisStore } from '../../../../src/shared/storage/redis/store.ts';
import { StorageRefused } from '../../../../src/shared/storage/refused.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { freePort } from '../../../support/ports.ts';
import { createDocumentedUser, createSentinelUser } from '../../../support/redis-acl.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis, startSentinel } from '../../../support/redis-server.ts';
import { until } from '../../../support/until.ts';

let server: RedisServer;
beforeAll(async () => {
  if (!missingRedis) server = await startRedis(IN_MEMORY);
});
beforeEach((context) => skipIfMissing(context, missingRedis));
afterAll(() => server?.dispose());

const open = (url: string, keyPrefix = '') =>
  createRedisStore({ url, keyPrefix, durability: 'none', deadlineMilliseconds: 5_000 });

const refusalOf = (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => Promise.reject(new Error('Nothing was refused.')),
    (error: Error) => error,
  );

describe('R127 a start with a user of Redis', () => {
  test.each<[string, string[], RegExp]>([
    ['without INFO', ['-info'], /the command INFO \(ACL \+info\)/],
    ['without EVAL', ['-eval'], /the command EVAL \(ACL \+eval\)/],
    ['without EVALSHA', ['-evalsha'], /the command EVALSHA \(ACL \+evalsha\)/],
    ['without a command of scripts', ['-zrem'], /the command ZREM \(ACL \+zrem\)/],
    ['without a command of the first hours', ['-xdel'], /the command XDEL \(ACL \+xdel\)/],
    [
      'without several commands',
      ['-xadd', '-scan', '-hset'],
      /HSET .*, the command XADD .*, the command SCAN \(ACL \+scan\)/,
    ],
    ['without SUBSCRIBE', ['-subscribe'], /the command SUBSCRIBE \(ACL \+subscribe\)/],
    ['without PUBLISH', ['-publish'], /the command PUBLISH \(ACL \+publish\)/],
    ['with keys of another prefix', ['resetkeys', '~gatehouse:*'], /does not allow its user its keys \(ACL ~\*\)\. It/],
    ['with keys that it may only read', ['resetkeys', '%R~*'], /its user its keys \(ACL ~\*\)\. It says: NOPERM/],
    ['with some of the keys', ['resetkeys', '~grant:*', '~session:*'], /its user its keys \(ACL ~\*\)\. It/],
    ['without channels', ['resetchannels'], /its user its channels \(ACL &\*\)\. It says: NOPERM .*channel/],
    ['with another channel', ['resetchannels', '&other'], /its user its channels \(ACL &\*\)\. It/],
    ['without keys and channels', ['resetkeys', 'resetchannels'], /its keys \(ACL ~\*\), its channels \(ACL &\*\)/],
  ])('%s is refused, and says so', async (_name, changes, words) => {
    const refusal = await refusalOf(open(createDocumentedUser(server, ...changes)));
    expect(refusal).toBeInstanceOf(StorageRefused);
    expect(refusal.message).toMatch(words);
    expect(refusal.message).toContain('docs/deploy.md');
    expect(refusal.message).not.toContain('password');
  });

  test('without SELECT is refused for another database, rather than served from the first one', async () => {
    const refusal = await refusalOf(open(`${createDocumentedUser(server, '-select')}/2`));
    expect(refusal).toBeInstanceOf(StorageRefused);
    expect(refusal.message).toMatch(/\(REDIS_URL\) does not allow its user the command SELECT \(ACL \+select\)/);
  });

  test.each([
    ['no CLIENT and MGET', ['-client|info', '-client|kill', '-mget']],
    ['everything', ['+@all', 'allkeys', 'allchannels']],
  ])('with %s is accepted', async (_name, changes) => {
    const store = await open(createDocumentedUser(server, ...changes));
    await store.close();
  });

  test('with the keys and channels of a prefix is accepted for that prefix', async () => {
    const ofService = ['resetkeys', '~bin-lookup-service:*', 'resetchannels', '&bin-lookup-service:*'];
    const store = await open(createDocumentedUser(server, ...ofService), 'bin-lookup-service:');
    await store.close();
    const refusal = await refusalOf(open(createDocumentedUser(server, ...ofService), 'other:'));
    expect(refusal.message).toContain('its keys (ACL ~other:*), its channels (ACL &other:*)');
  });
});

describe('R127 a start with a user of several servers', () => {
  let others: RedisServer[] = [];
  afterEach(() => Promise.all(others.map((other) => other.dispose())));

  test('who may not wait for replicas is refused if they must confirm each write, and only then', async () => {
    others = [await startRedis(['--replicaof', '127.0.0.1', String(server.port)])];
    await until(() => server.sendCommand('INFO', 'replication').includes('state=online'));
    const url = createDocumentedUser(server, '-wait');
    const openWith = (durability: 'replicas' | 'none') =>
      createRedisStore({ url, durability, deadlineMilliseconds: 5_000 });
    const refusal = await refusalOf(openWith('replicas'));
    expect(refusal).toBeInstanceOf(StorageRefused);
    expect(refusal.message).toMatch(/the command WAIT \(ACL \+wait\)\. It says: NOPERM/);
    await (await openWith('none')).close();
    createDocumentedUser(server);
    await (await openWith('replicas')).close();
  });

  test('of a cluster: without a command that only a cluster needs is refused, also while it is used', async () => {
    const cluster = ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'];
    const node = await startRedis([...IN_MEMORY, ...cluster, '--cluster-port', String(await freePort())]);
    others = [node];
    node.sendCommand('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await until(() => node.sendCommand('CLUSTER', 'INFO').includes('cluster_state:ok'));
    const openCluster = (url: string) =>
      createRedisStore({ cluster: url, durability: 'none', deadlineMilliseconds: 5_000 });
    const words =
      /^The Redis at 127\.0\.0\.1:\d+ does not allow its user the command CLUSTER NODES \(ACL \+cluster\|nodes\)/;
    const refusal = await refusalOf(openCluster(createDocumentedUser(node, '-cluster|nodes')));
    expect(refusal).toBeInstanceOf(StorageRefused);
    expect(refusal.message).toMatch(words);
    const store = await openCluster(createDocumentedUser(node));
    try {
      for (const command of ['info', 'nodes', 'slots']) {
        createDocumentedUser(node, `-cluster|${command}`);
        await expect(store.admit()).rejects.toThrow(`CLUSTER ${command.toUpperCase()} (ACL +cluster|${command})`);
      }
      createDocumentedUser(node);
      await store.admit();
    } finally {
      await store.close();
    }
    // One master with all slots works like a single server. Only CLUSTER INFO tells.
    const single = await refusalOf(open(createDocumentedUser(node, '-cluster|info')));
    expect(single.message).toMatch(/does not allow its user the command CLUSTER INFO \(ACL \+cluster\|info\)/);
  });

  test('of sentinels: the documented permissions are enough', async () => {
    const sentinel = await startSentinel('gatehouse', server.port);
    others = [sentinel];
    const store = await createRedisStore({
      sentinels: createDocumentedUser(server).replace(String(server.port), String(sentinel.port)),
      sentinelName: 'gatehouse',
      sentinelCredentials: createSentinelUser(sentinel),
      durability: 'none',
      deadlineMilliseconds: 5_000,
    });
    await store.close();
  });
});

describe('R126 a permission that is taken away while a store is used', () => {
  test.each<[string, string[], RegExp]>([
    ['a command of scripts', ['-zadd'], /the command ZADD \(ACL \+zadd\)/],
    ['the keys', ['resetkeys'], /its keys \(ACL ~\*\)/],
    ['the channels', ['resetchannels'], /its channels \(ACL &\*\)/],
  ])('%s: the next check names it, and accepts it once it is back', async (_name, changes, words) => {
    const store = await open(createDocumentedUser(server));
    try {
      createDocumentedUser(server, ...changes);
      await expect(store.admit()).rejects.toThrow(StorageRefused);
      await expect(store.admit()).rejects.toThrow(words);
      createDocumentedUser(server);
      await expect(store.admit()).resolves.toBeDefined();
    } finally {
      await store.close();
    }
  });

  test('calls until then are refused as an unavailable storage, with what is missing, and without a key', async () => {
    const store = await open(createDocumentedUser(server), 'some-prefix:');
    try {
      createDocumentedUser(server, '-zadd', '-set', '-getrange');
      const write = () => store.write([{ put: 'user:secret-name', value: '1' }]);
      createDocumentedUser(server, 'resetkeys');
      const withoutKeys = await refusalOf(write());
      createDocumentedUser(server, '-set');
      const withoutCommand = await refusalOf(write());
      createDocumentedUser(server, '-evalsha');
      const withoutScripts = await refusalOf(write());
      for (const error of [withoutKeys, withoutCommand, withoutScripts]) {
        expect(error).toMatchObject({ code: 'storage_unavailable', retryAfterSeconds: 60 });
        expect((error as AppError).logDetail).not.toContain('secret-name');
      }
      // Not `~*`: a store with a prefix needs only keys with that prefix. The next check names them.
      expect((withoutKeys as AppError).logDetail).toBe('Redis responded NOPERM: its user lacks its keys');
      expect((withoutCommand as AppError).logDetail).toMatch(/^Redis responded NOPERM: its user lacks (a|the) command/);
      expect((withoutScripts as AppError).logDetail).toContain('the command EVALSHA (ACL +evalsha)');
    } finally {
      await store.close();
    }
  });
});
