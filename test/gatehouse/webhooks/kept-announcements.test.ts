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
/** Whether the storage fails at this call. The calls of each kind are counted from 1. */
let isFailing: (call: 'page' | 'write', number: number) => boolean;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-announced-'));
  store = await createSqliteStore({ directory });
  isFailing = () => false;
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

async function startWebhooks() {
  const callCounts = { page: 0, write: 0 };
  const failIfDown = (call: 'page' | 'write') => {
    callCounts[call] += 1;
    if (isFailing(call, callCounts[call])) throw new AppError('storage_unavailable');
  };
  const failingStore: Store = {
    ...store,
    async page(...pageArguments) {
      failIfDown('page');
      return store.page(...pageArguments);
    },
    async write(...writeArguments) {
      failIfDown('write');
      return store.write(...writeArguments);
    },
  };
  const lines: string[] = [];
  const logger = pino({}, { write: (line: string) => void lines.push(line) });
  const metrics = createMetrics();
  const events = createEvents({ logger, metrics });
  const webhooks = createWebhooks({
    storage: { store: failingStore, sealedJson: createSealedJson(makeSealer()) },
    outbound: { fetch: () => Promise.reject(new Error('nothing is sent here')) } as never,
    audit: { note: () => undefined },
    events,
    clock: Date.now,
    random: Math.random,
  });
  const webhook = { url: 'https://example.test/hook', events: ['connection.created' as const], disabled: false };
  const ids = [newWebhookId(), newWebhookId(), newWebhookId()];
  for (const id of ids) await webhooks.registered.create(id, webhook);
  callCounts.page = 0;
  callCounts.write = 0;
  return { webhooks, events, ids, metrics, lines };
}

const facts = { userId: 'u1', app: 'platform', connection: 'cn0000000000a', scopes: [] };

test.each([
  ['the read of the webhooks', (call: string, number: number) => call === 'page' && number === 1],
  ['the write of the first message', (call: string, number: number) => call === 'write' && number === 1],
  ['the write of the second message', (call: string, number: number) => call === 'write' && number === 2],
])('R119 each webhook gets an announcement once, even if %s failed', async (_description, isFailingCall) => {
  const { webhooks, events, ids, metrics } = await startWebhooks();
  isFailing = isFailingCall;
  events.connectionCreated(facts);
  await webhooks.messages.settle();
  for (const id of ids) {
    const { items } = await webhooks.messages.page(id, LATEST);
    expect(items.map(({ event }) => event)).toEqual(['connection.created']);
  }
  await webhooks.close();
  expect(await metrics.registry.metrics()).toContain('gatehouse_webhook_messages_lost_total 0');
});

test('R119 an announcement that was stored by a failed write is not sent twice', async () => {
  const { webhooks, events, ids } = await startWebhooks();
  const { write } = store;
  let isFirstWrite = true;
  store.write = async (...writeArguments) => {
    const version = await write(...writeArguments);
    if (!isFirstWrite) return version;
    isFirstWrite = false;
    throw new AppError('storage_unavailable');
  };
  events.connectionCreated(facts);
  await webhooks.messages.settle();
  for (const id of ids) expect((await webhooks.messages.page(id, LATEST)).items).toHaveLength(1);
  await webhooks.close();
});

test('R119 announcements that a stop cannot store are counted and logged', async () => {
  const { webhooks, events, metrics, lines } = await startWebhooks();
  isFailing = () => true;
  for (let announcements = 0; announcements < 3; announcements += 1) events.connectionCreated(facts);
  await webhooks.close();
  expect(await metrics.registry.metrics()).toContain('gatehouse_webhook_messages_lost_total 3');
  expect(lines.map((line) => JSON.parse(line))).toContainEqual(
    expect.objectContaining({ level: 50, msg: 'webhook messages lost', events: 3 }),
  );
});
