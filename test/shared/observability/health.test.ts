/** The responses of the management listener. */
import request from 'supertest';
import { expect, test } from 'vitest';
import { createHealth } from '../../../src/shared/observability/health.ts';
import { createMetrics } from '../../../src/shared/observability/metrics.ts';
import type { StorageFault } from '../../../src/shared/observability/storage-watch.ts';

const FAULT: StorageFault = { reason: 'storage', storage: 'Redis at redis:6379', detail: 'Redis responded MISCONF' };

function healthWith(fault?: StorageFault) {
  const storage = { check: async () => fault, fault: () => fault };
  const metrics = createMetrics();
  return createHealth({ storage, metrics, headers: ['Cache-Control', 'no-store', 'X-Other', 'kept'] });
}

const gauges = async (health: ReturnType<typeof healthWith>) => {
  const { text } = await request(health.listener).get('/metrics').expect(200);
  return Object.fromEntries([...text.matchAll(/^gatehouse_(ready|storage_up) (\d)$/gm)].map((match) => match.slice(1)));
};

test('R90: is always alive, and ready only while the storage accepts writes', async () => {
  const broken = healthWith(FAULT);
  await request(broken.listener).get('/healthz').expect(200, 'alive\n');
  await request(broken.listener)
    .get('/readyz')
    .expect(503, { ready: false, ...FAULT })
    .expect('content-type', /^application\/json/);
  expect(await gauges(broken)).toEqual({ ready: '0', storage_up: '0' });

  const healthy = healthWith();
  await request(healthy.listener).get('/readyz').expect(200, { ready: true });
  expect(await gauges(healthy)).toEqual({ ready: '1', storage_up: '1' });
});

test('R90: is not ready once it drains', async () => {
  const health = healthWith();
  health.drain();
  await request(health.listener).get('/readyz').expect(503, { ready: false, reason: 'draining' });
  await request(health.listener).get('/healthz').expect(200);
  expect(await gauges(health)).toEqual({ ready: '0', storage_up: '1' });
});

test('serves metrics, and refuses other paths and methods', async () => {
  const { listener } = healthWith();
  const metrics = await request(listener).get('/metrics?x=1').expect(200).expect('x-other', 'kept');
  expect(metrics.headers['cache-control']).toBe('no-store');

  await request(listener).get('/other').expect(404).expect('x-other', 'kept');
  await request(listener).post('/healthz').expect(405).expect('allow', 'GET, HEAD').expect('x-other', 'kept');
});
