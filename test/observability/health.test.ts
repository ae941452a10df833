/** The management listener by itself: what it answers, and to whom. */
import { Registry } from 'prom-client';
import request from 'supertest';
import { expect, test } from 'vitest';
import { createHealth } from '../../src/observability/health.ts';

const healthWith = (ready: () => Promise<void>) =>
  createHealth({ ready, registry: new Registry(), headers: ['Cache-Control', 'no-store', 'X-Other', 'kept'] });

test('R90: is alive whatever the storage does, and ready only while it can be written', async () => {
  const broken = healthWith(() => Promise.reject(new Error('no store'))).listener;
  await request(broken).get('/healthz').expect(200, 'alive\n');
  await request(broken).get('/readyz').expect(503, 'not ready\n');
  const sound = healthWith(() => Promise.resolve()).listener;
  await request(sound).get('/readyz').expect(200, 'ready\n');
});

test('R90: is not ready once it drains', async () => {
  const health = healthWith(() => Promise.resolve());
  health.drain();
  await request(health.listener).get('/readyz').expect(503);
  await request(health.listener).get('/healthz').expect(200);
});

test('serves metrics, and nothing else', async () => {
  const { listener } = healthWith(() => Promise.resolve());
  const metrics = await request(listener).get('/metrics?x=1').expect(200).expect('x-other', 'kept');
  expect(metrics.headers['cache-control']).toBe('no-store');
  await request(listener).get('/other').expect(404).expect('x-other', 'kept');
  await request(listener).post('/healthz').expect(405).expect('allow', 'GET, HEAD').expect('x-other', 'kept');
});
