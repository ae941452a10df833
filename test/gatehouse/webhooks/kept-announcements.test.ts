/** R119: announcements to webhooks survive a failing storage, and are counted as lost if they cannot be stored. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newWebhookId } from '../../../src/gatehouse/webhooks/webhook-store.ts';
import { createWebhooks } from '../../../src/gatehouse/webhooks/webhooks.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { createEvents } from '../../../src/shared/observability/events.ts';
import { createMetrics } from '../../../src/shared/observability/metrics.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';

const LATEST = { limit: 50 };

let directory: string;
let store: Store;
let fails: (call: 'page' | 'write', nth: number) => boolean;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-announced-'));
  store = await createSqliteStore({ directory });
  fails = () => false;
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

async function startWebhooks() {
  const calls = { page: 0, write: 0 };
  const isDown = (call: 'page' | 'write') => {
    calls[call] += 1;
    return fails(call, calls[call]);
  };
  const shaky: Store = {
    ...store,
    page: (...given) => (isDown('page') ? Promise.reject(new AppError('storage_unavailable')) : store.page(...given)),
    write: (...given) =>
      isDown('write') ? Promise.reject(new AppError('storage_unavailable')) : store.write(...given),
  };
  const lines: string[] = [];
  const logger = pino({}, { write: (line: string) => void lines.push(line) });
  const metrics = createMetrics();
  const events = createEvents({ logger, metrics });
  const webhooks = createWebhooks({
    storage: { store: shaky, sealedJson: createSealedJson(makeSealer()) },
    outbound: { fetch: () => Promise.reject(new Error('nothing is sent here')) } as never,
    audit: { note: () => undefined },
    events,
    clock: Date.now,
    random: Math.random,
  });
  const wanted = { url: 'https://example.test/hook', events: ['connection.created' as const], enabled: true };
  const ids = [newWebhookId(), newWebhookId(), newWebhookId()];
  for (const id of ids) await webhooks.registered.create(id, wanted);
  calls.page = 0;
  calls.write = 0;
  return { webhooks, events, ids, metrics, lines };
}

const facts = { userId: 'u1', app: 'platform', connection: 'cn0000000000a', scopes: [] };

test.each([
  ['the read of the webhooks', (call: string, nth: number) => call === 'page' && nth === 1],
  ['the write of the first message', (call: string, nth: number) => call === 'write' && nth === 1],
  ['the write of the second message', (call: string, nth: number) => call === 'write' && nth === 2],
])('R119 each webhook gets an announcement once, even if %s failed', async (_what, failing) => {
  const { webhooks, events, ids, metrics } = await startWebhooks();
  fails = failing;
  events.connectionCreated(facts);
  await webhooks.messages.settle();
  for (const id of ids) {
    const { items } = await webhooks.messages.page(id, LATEST);
    expect(items.map(({ event }) => event)).toEqual(['connection.created']);
  }
  await webhooks.close();
  expect(await metrics.registry.metrics()).toContain('gatehouse_webhook_announcements_lost_total 0');
});

test('R119 an announcement that was stored by a failed write is not sent twice', async () => {
  const { webhooks, events, ids } = await startWebhooks();
  const { write } = store;
  let failed = false;
  store.write = async (...given) => {
    const written = await write(...given);
    if (failed) return written;
    failed = true;
    throw new AppError('storage_unavailable');
  };
  events.connectionCreated(facts);
  await webhooks.messages.settle();
  for (const id of ids) expect((await webhooks.messages.page(id, LATEST)).items).toHaveLength(1);
  await webhooks.close();
});

test('R119 announcements that a stop cannot store are counted and logged', async () => {
  const { webhooks, events, metrics, lines } = await startWebhooks();
  fails = () => true;
  for (let n = 0; n < 3; n += 1) events.connectionCreated(facts);
  await webhooks.close();
  expect(await metrics.registry.metrics()).toContain('gatehouse_webhook_announcements_lost_total 3');
  expect(lines.map((line) => JSON.parse(line))).toContainEqual(
    expect.objectContaining({ level: 50, msg: 'webhook announcements lost', announcements: 3 }),
  );
});
