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
  const set = await startSentinelSet();
  closers.push(() => set.dispose());
  // A sentinel promotes no replica that has been without its master for ten times as long.
  for (const one of set.sentinels) one.sendCommand('SENTINEL', 'SET', set.name, 'down-after-milliseconds', '4000');
  for (const one of set.servers) one.sendCommand('CONFIG', 'SET', 'appendonly', 'yes');
  const otherRedis = { REDIS_SENTINELS: set.addresses, REDIS_SENTINEL_NAME: set.name, REDIS_DURABILITY: 'aof' };
  const crowd = await startCrowd({ kind: 'Redis', processes: 1, users: 2, otherRedis });
  closers.push(() => crowd.close());
  const member = crowd.member(0);
  const [person, other] = crowd.users;
  if (!person || !other) throw new Error('There are no people.');
  await until(() => crowd.output().includes('because REDIS_DURABILITY is aof'));
  expect((await crowd.thread(member, other)).status).toBe(200);
  await crowd.expire(person);
  const [master, ...replicas] = set.servers;
  const offset = (info = '') => /(?:master|slave)_repl_offset:(\d+)/.exec(info)?.[1];
  await until(() =>
    replicas.every(
      (one) => offset(one.sendCommand('INFO', 'replication')) === offset(master?.sendCommand('INFO', 'replication')),
    ),
  );

  // Connections stay, but replicas that connect again are refused.
  master?.sendCommand('CONFIG', 'SET', 'requirepass', 'of-the-test');
  for (const replica of replicas) replica.sendCommand('CLIENT', 'KILL', 'TYPE', 'master');
  await until(() =>
    replicas.every((one) => one.sendCommand('INFO', 'replication').includes('master_link_status:down')),
  );
  expect((await crowd.thread(member, person)).status).toBe(200);
  await master?.kill();

  await until(async () => (await crowd.thread(member, other)).status === 200);
  await until(async () => (await crowd.thread(member, person)).status === 403);
  const { connections } = JSON.parse((await crowd.get(member, '/session', person)).body);
  expect(connections).toMatchObject([{ health: 'reconnect_needed', cause: 'lost_in_failover' }]);
  await until(() => crowd.output().includes('"msg":"storage failed over"'));
});
