/** Readiness without traffic: metrics and log report the loss and the return of the storage. */
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { watchStorage } from '../../../src/shared/observability/storage-watch.ts';
import { storageProbe } from '../../../src/shared/storage/probe.ts';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, type RedisServer, startCluster, startRedis } from '../../support/redis-server.ts';
import { sendRequest } from '../../support/send-request.ts';
import { breakStore } from '../../support/store-fault.ts';
import { until } from '../../support/until.ts';

const closeables: { close(): Promise<void> }[] = [];
const servers: RedisServer[] = [];
afterEach(async () => {
  for (const site of closeables.splice(0)) await site.close();
  for (const server of servers.splice(0)) await server.dispose();
});

async function startSiteOn(env: Record<string, string> = {}): Promise<TestSite> {
  const site = await startSite({ env });
  closeables.push(site);
  return site;
}

const gauges = async (site: TestSite) => {
  const { body } = await sendRequest(`${site.managementUrl}/metrics`);
  return [...body.matchAll(/^gatehouse_(?:ready|storage_up) (\d)$/gm)].map(([, value]) => Number(value));
};
const untilUp = (site: TestSite, up: 0 | 1) => until(async () => (await gauges(site)).every((value) => value === up));

/** The lines about the storage, without the time. */
const linesOf = (site: TestSite) =>
  site
    .logs()
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ msg }) => String(msg).startsWith('storage '))
    .map(({ time: _, ...line }) => line);

describe('R90 readiness without a request', () => {
  test('on SQLite: gauges fall and rise, with one log line each', async () => {
    const site = await startSiteOn();
    expect(await gauges(site)).toEqual([1, 1]);
    const heal = breakStore();
    try {
      await untilUp(site, 0);
      // The second probe of a storage that stays lost logs nothing.
      const { body } = await sendRequest(`${site.managementUrl}/readyz`);
      const storage = `SQLite in ${site.dataDirectory}`;
      const fault = { reason: 'disk', storage, detail: 'SQLite returned IOERR (result code 10)' };
      expect(JSON.parse(body)).toEqual({ ready: false, ...fault });
      expect(linesOf(site)).toEqual([{ level: 50, ...fault, msg: 'storage lost' }]);

      heal();
      await untilUp(site, 1);
      expect(linesOf(site).slice(1)).toEqual([
        { level: 40, storage, seconds: expect.any(Number), msg: 'storage is back' },
      ]);
    } finally {
      heal();
    }
  });

  test('on Redis: the line has the address and the code, and no password', async (context) => {
    skipIfMissing(context, missingRedis);
    const redis = await startRedis();
    servers.push(redis);
    redis.sendCommand('ACL', 'SETUSER', 'gatehouse', 'on', '>a-password-of-the-test', '~*', '&*', '+@all');
    const site = await startSiteOn({ REDIS_URL: `redis://gatehouse:a-password-of-the-test@127.0.0.1:${redis.port}` });
    await redis.kill();
    await untilUp(site, 0);
    const storage = `Redis at 127.0.0.1:${redis.port}`;
    const detail = 'There is no connection to Redis: ECONNREFUSED';
    expect(linesOf(site)).toEqual([{ level: 50, reason: 'storage', storage, detail, msg: 'storage lost' }]);

    // It starts without the users that were set while it ran.
    await redis.start();
    await expect
      .poll(async () => JSON.parse((await sendRequest(`${site.managementUrl}/readyz`)).body).detail)
      .toBe('There is no connection to Redis: WRONGPASS');

    redis.sendCommand('ACL', 'SETUSER', 'gatehouse', 'on', '>a-password-of-the-test', '~*', '&*', '+@all');
    await untilUp(site, 1);
    expect(linesOf(site).map(({ msg }) => msg)).toEqual(['storage lost', 'storage is back']);
    expect(site.logs().join()).not.toContain('a-password-of-the-test');
  });

  test('on a Redis cluster: the loss of one master is the loss of the storage', async (context) => {
    skipIfMissing(context, missingRedis);
    const nodes = await startCluster(3);
    servers.push(...nodes);
    const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
    const site = await startSiteOn({ REDIS_CLUSTER: addresses.join(',') });
    // On a busy machine the nodes may have considered each other dead at first.
    await untilUp(site, 1);
    await nodes[1]?.kill();
    await untilUp(site, 0);
    const detail = expect.stringMatching(/^Redis |^There is no connection to Redis/);
    const storage = `Redis at ${addresses.join(', ')}`;
    expect(linesOf(site).at(-1)).toEqual({ level: 50, reason: 'storage', storage, detail, msg: 'storage lost' });

    const detailOf = async () => JSON.parse((await sendRequest(`${site.managementUrl}/readyz`)).body).detail;
    await Promise.all([nodes[0]?.kill(), nodes[2]?.kill()]);
    const reason = /^There is no connection to Redis: (?:ECONNREFUSED|ECONNRESET|no node of the cluster responds)$/;
    await expect.poll(detailOf).toMatch(reason);

    await Promise.all(nodes.map((node) => node.start()));
    await untilUp(site, 1);
    expect(linesOf(site).slice(-2)).toMatchObject([{ msg: 'storage lost' }, { msg: 'storage is back' }]);
  });
});

describe('the watch', () => {
  const LOST = { reason: 'storage', storage: 'a', detail: 'b' } as const;

  function watchWith(probes: (() => Promise<typeof LOST | undefined>)[]) {
    const reported: unknown[] = [];
    let now = 0;
    const watch = watchStorage({
      probe: () => probes.shift()?.() ?? Promise.resolve(undefined),
      events: { storageLost: (fault) => reported.push(fault), storageBack: (facts) => reported.push(facts) },
      monotonicClock: () => now,
    });
    closeables.push(watch);
    return { watch, reported, advance: (milliseconds: number) => (now += milliseconds) };
  }

  test('ignores a probe that ends after a later one, and reports how long the storage was lost', async () => {
    let endFirst = (_fault: typeof LOST) => {};
    const first = new Promise<typeof LOST>((resolve) => {
      endFirst = resolve;
    });
    const { watch, reported, advance } = watchWith([() => first, async () => undefined, async () => LOST]);
    await watch.check();
    endFirst(LOST);
    await first;
    expect([watch.fault(), reported]).toEqual([undefined, []]);

    await watch.check();
    expect(watch.fault()).toEqual(LOST);

    advance(61_400);
    await watch.check();
    expect(reported).toEqual([LOST, { storage: 'a', seconds: 61 }]);
  });

  test('reports nothing once it is closed, because the storage is closed next', async () => {
    const { watch, reported } = watchWith([async () => undefined, async () => LOST]);
    await watch.close();
    await watch.check();
    expect(reported).toEqual([]);
  });

  test('R126 probes every nine seconds, regardless of the duration of a probe', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const startedAt: number[] = [];
    const probe = async () => {
      startedAt.push(Math.round(performance.now() - firstStart));
      await new Promise((resolve) => setTimeout(resolve, 4_000));
      return undefined;
    };
    const firstStart = performance.now();
    const events = { storageLost: () => undefined, storageBack: () => undefined };
    const watch = watchStorage({ probe, events, monotonicClock: () => performance.now() });
    await vi.advanceTimersByTimeAsync(20_000);
    await watch.close();
    expect(startedAt).toEqual([0, 9_000, 18_000]);
  });

  test('treats any error as a lost storage', async () => {
    const probe = storageProbe(
      { ready: () => Promise.reject(new TypeError('secret')) },
      { dataDirectory: '/d', redis: undefined },
    );
    expect(await probe()).toEqual({
      reason: 'storage',
      storage: 'SQLite in /d',
      detail: 'The probe failed unexpectedly',
    });
  });
});
