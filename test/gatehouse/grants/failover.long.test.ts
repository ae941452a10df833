/** R40: a refresh token that was lost in a failover of the storage is not attributed to the provider. */
import { afterEach, expect, test } from 'vitest';
import { startCrowd } from '../../support/crowd.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, startSentinelSet } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

test('behind sentinels with REDIS_DURABILITY=aof, the start warns, and a lost renewal has the cause lost_in_failover', async (context) => {
  skipIfMissing(context, missingRedis);
  const sentinelSet = await startSentinelSet();
  closers.push(() => sentinelSet.dispose());
  // A sentinel promotes no replica that has been without its master for ten times as long.
  for (const sentinel of sentinelSet.sentinels)
    sentinel.sendCommand('SENTINEL', 'SET', sentinelSet.name, 'down-after-milliseconds', '4000');
  for (const server of sentinelSet.servers) server.sendCommand('CONFIG', 'SET', 'appendonly', 'yes');
  const otherRedis = {
    REDIS_SENTINELS: sentinelSet.addresses,
    REDIS_SENTINEL_NAME: sentinelSet.name,
    REDIS_DURABILITY: 'aof',
  };
  const crowd = await startCrowd({ kind: 'Redis', processes: 1, users: 2, otherRedis });
  closers.push(() => crowd.close());
  const member = crowd.member(0);
  const [lostUser, otherUser] = crowd.users;
  if (!lostUser || !otherUser) throw new Error('There are no users.');
  await until(() => crowd.output().includes('because REDIS_DURABILITY is aof'));

  expect((await crowd.thread(member, otherUser)).status).toBe(200);

  await crowd.expire(lostUser);
  const [master, ...replicas] = sentinelSet.servers;
  const replicationOffset = (info = '') => /(?:master|slave)_repl_offset:(\d+)/.exec(info)?.[1];
  await until(() =>
    replicas.every(
      (server) =>
        replicationOffset(server.sendCommand('INFO', 'replication')) ===
        replicationOffset(master?.sendCommand('INFO', 'replication')),
    ),
  );

  // The open connections of clients stay, but replicas that connect again are refused, so they miss the next writes.
  master?.sendCommand('CONFIG', 'SET', 'requirepass', 'of-the-test');
  for (const replica of replicas) replica.sendCommand('CLIENT', 'KILL', 'TYPE', 'master');
  await until(() =>
    replicas.every((server) => server.sendCommand('INFO', 'replication').includes('master_link_status:down')),
  );

  expect((await crowd.thread(member, lostUser)).status).toBe(200);

  await master?.kill();

  await until(async () => (await crowd.thread(member, otherUser)).status === 200);
  await until(async () => (await crowd.thread(member, lostUser)).status === 403);

  const { items } = JSON.parse((await crowd.get(member, '/connections', lostUser)).body);
  expect(items).toMatchObject([{ health: 'reconnect_needed', cause: 'lost_in_failover' }]);

  await until(() => crowd.output().includes('"msg":"storage failed over"'));
});
