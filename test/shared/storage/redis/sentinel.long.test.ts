/** The Redis store behind three sentinels, with a master and two replicas, when the master is lost. */
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { createRedisStore } from '../../../../src/shared/storage/redis/store.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { missingRedis, type SentinelSet, startSentinelSet } from '../../../support/redis-server.ts';
import { startStopwatch } from '../../../support/stopwatch.ts';
import { until } from '../../../support/until.ts';

let sentinelSet: SentinelSet;

beforeEach(async (context) => {
  skipIfMissing(context, missingRedis);
  // A second attempt needs all three servers again.
  sentinelSet = await startSentinelSet();
});

afterEach(() => sentinelSet?.dispose());

test('when the master is killed under load, the store writes again within 5 s and loses no acknowledged write', async () => {
  const store = await createRedisStore({
    sentinels: sentinelSet.addresses,
    sentinelName: sentinelSet.name,
    durability: 'replicas',
  });
  const messages: string[] = [];
  await store.subscribe('channel', (message) => messages.push(message));
  const acknowledged = new Map<string, number>();
  const refusals: number[] = [];
  let running = true;
  onTestFinished(async () => {
    running = false;
    await store.close();
  });
  const workers = Array.from({ length: 10 }, async (_, worker) => {
    const key = `worker ${worker}`;
    for (let n = 1; running; n += 1) {
      const elapsed = startStopwatch();
      try {
        await store.write([{ put: key, value: String(n) }]);
        acknowledged.set(key, n);
      } catch (error) {
        refusals.push(elapsed());
        expect(error).toMatchObject({ code: 'storage_unavailable' });
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  });
  await until(() => (acknowledged.get('worker 0') ?? 0) > 50);

  const master = sentinelSet.servers.find((server) => server.sendCommand('ROLE').startsWith('master'));
  await master?.kill();
  const sinceKilled = startStopwatch();
  const oldPort = String(master?.port);
  await until(
    () =>
      !sentinelSet.sentinels[0]?.sendCommand('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', sentinelSet.name).includes(oldPort),
  );
  const sinceElected = startStopwatch();
  await until(() => refusals.length > 0);
  const acknowledgedBefore = new Map(acknowledged);
  await until(() => [...acknowledged].every(([key, n]) => n > (acknowledgedBefore.get(key) ?? 0)));
  await until(() =>
    store.counter('any').then(
      () => true,
      () => false,
    ),
  );
  // Sentinels repeat a split vote, so the time of the vote varies. The store may add only little to it.
  expect(Math.min(sinceElected(), sinceKilled() - 3_000)).toBeLessThan(2_000);

  running = false;
  await Promise.all(workers);
  expect(Math.max(...refusals)).toBeLessThan(500);

  for (const [key, n] of acknowledged) expect(Number((await store.get(key))?.value)).toBeGreaterThanOrEqual(n);
  await until(async () => {
    await store.publish('channel', 'after').catch(() => undefined);
    return messages.includes('after');
  });
});
