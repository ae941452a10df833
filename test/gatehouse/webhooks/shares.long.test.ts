/** R132: a receiver that hangs delays only its own messages. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { newWebhookId } from '../../../src/gatehouse/webhooks/webhook-store.ts';
import { createWebhooks } from '../../../src/gatehouse/webhooks/webhooks.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import { startScheduledTasks } from '../../../src/shared/storage/scheduled-task.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { until } from '../../support/until.ts';

interface Receiver {
  url: string;
  received: number;
  underWay: number;
  maxUnderWay: number;
}

let directory: string;
let store: Store;
let outbound: Outbound;
let servers: Server[];
let closers: (() => Promise<unknown>)[];
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-shares-'));
  store = await createSqliteStore({ directory, clock: Date.now });
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  servers = [];
  closers = [];
});
afterEach(async () => {
  for (const server of servers) server.closeAllConnections();
  for (const close of closers) await close();
  await outbound.close();
  for (const server of servers) server.close();
  await store.close();
  rmSync(directory, { recursive: true });
});

/** A receiver that counts its calls. While it hangs, it responds to none; otherwise to each after 50 ms. */
async function startReceiver(isHanging: () => boolean): Promise<Receiver> {
  const receiver: Receiver = { url: '', received: 0, underWay: 0, maxUnderWay: 0 };
  const server = createServer((req, res) => {
    req.resume();
    receiver.received += 1;
    receiver.underWay += 1;
    receiver.maxUnderWay = Math.max(receiver.maxUnderWay, receiver.underWay);
    res.once('close', () => {
      receiver.underWay -= 1;
    });
    if (isHanging()) return;
    setTimeout(() => res.writeHead(204).end(), 50);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  servers.push(server);
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return receiver;
}

async function startWebhooks(receivers: readonly Receiver[]) {
  const webhooks = createWebhooks({
    storage: { store, sealedJson: createSealedJson(makeSealer()) },
    outbound,
    clock: Date.now,
    random: Math.random,
    audit: { note: () => undefined },
    events: { listen: () => undefined, announcementsLost: () => undefined } as never,
  });
  for (const { url } of receivers)
    await webhooks.registered.create(newWebhookId(), { url, events: ['connection.created'], disabled: false });
  const scheduledTasks = startScheduledTasks({ store, random: Math.random, scheduledTasks: webhooks.scheduledTasks });
  closers.push(scheduledTasks.close, webhooks.close);
  return { webhooks, scheduledTasks };
}

const announce = (webhooks: Awaited<ReturnType<typeof startWebhooks>>['webhooks'], count: number) => {
  for (let index = 0; index < count; index += 1) {
    webhooks.messages.announce('connection.created', { userId: `u${index}`, app: 'a' });
  }
};

test.each([
  [1, 300],
  [20, 60],
])('R132 while %i receivers hang, another one gets %i messages and ten later ones', async (hangingCount, events) => {
  const receiver = await startReceiver(() => false);
  const hangingReceivers: Receiver[] = [];
  for (let index = 0; index < hangingCount; index += 1) hangingReceivers.push(await startReceiver(() => true));
  const { webhooks } = await startWebhooks([...hangingReceivers, receiver]);

  announce(webhooks, events);
  // More messages are announced while the first ones wait for the receivers that hang.
  await until(() => receiver.received >= events / 3);
  announce(webhooks, 10);

  await until(() => receiver.received >= events + 10);
  for (const { maxUnderWay, received } of hangingReceivers) {
    // A receiver that hangs gets one call of ten seconds at a time.
    expect(maxUnderWay).toBe(1);
    expect(received).toBeLessThanOrEqual(6);
  }
});

test('R132 a receiver that recovers gets its pending messages, several at a time', async () => {
  let isHanging = true;
  const receiver = await startReceiver(() => isHanging);
  const { webhooks } = await startWebhooks([receiver]);
  announce(webhooks, 60);
  await until(() => receiver.received >= 1);
  isHanging = false;
  await until(() => receiver.received > 60);
  expect(receiver.maxUnderWay).toBeGreaterThan(1);
});

test('R132 a stop waits for running calls, and starts no more', async () => {
  const receiver = await startReceiver(() => true);
  const { webhooks, scheduledTasks } = await startWebhooks([receiver]);
  announce(webhooks, 60);
  await until(() => receiver.received >= 1);
  await scheduledTasks.close();
  expect(receiver.received).toBe(1);
  const [webhook] = (await webhooks.registered.page({ limit: 1 })).items;
  const { items } = await webhooks.messages.page(webhook?.id ?? '', { limit: 100 });
  expect(items.flatMap(({ attempts }) => attempts)).toHaveLength(1);
});
