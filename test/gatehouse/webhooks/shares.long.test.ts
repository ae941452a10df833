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
  [servers, closers] = [[], []];
});
afterEach(async () => {
  for (const server of servers) server.closeAllConnections();
  for (const close of closers) await close();
  await outbound.close();
  for (const server of servers) server.close();
  await store.close();
  rmSync(directory, { recursive: true });
});

async function receiver(isHanging: () => boolean): Promise<Receiver> {
  const one: Receiver = { url: '', received: 0, underWay: 0, maxUnderWay: 0 };
  const server = createServer((req, res) => {
    req.resume();
    one.received += 1;
    one.underWay += 1;
    one.maxUnderWay = Math.max(one.maxUnderWay, one.underWay);
    res.once('close', () => {
      one.underWay -= 1;
    });
    if (isHanging()) return;
    setTimeout(() => res.writeHead(204).end(), 50);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  servers.push(server);
  one.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return one;
}

async function startWebhooks(receivers: readonly Receiver[]) {
  const webhooks = createWebhooks({
    ...{ storage: { store, sealedJson: createSealedJson(makeSealer()) }, outbound },
    ...{ clock: Date.now, random: Math.random, audit: { note: () => undefined } },
    events: { listen: () => undefined, announcementsLost: () => undefined } as never,
  });
  for (const { url } of receivers)
    await webhooks.registered.create(newWebhookId(), { url, events: ['connection.created'], enabled: true });
  const scheduledTasks = startScheduledTasks({ store, random: Math.random, scheduledTasks: webhooks.scheduledTasks });
  closers.push(scheduledTasks.close, webhooks.close);
  return { webhooks, scheduledTasks };
}

const announce = (webhooks: Awaited<ReturnType<typeof startWebhooks>>['webhooks'], count: number) => {
  for (let at = 0; at < count; at += 1) webhooks.messages.announce('connection.created', { user: `u${at}`, app: 'a' });
};

test.each([
  [1, 300],
  [20, 60],
])('R132 while %i receivers hang, another one gets %i messages and later ones in time', async (count, events) => {
  const good = await receiver(() => false);
  const bad: Receiver[] = [];
  for (let at = 0; at < count; at += 1) bad.push(await receiver(() => true));
  const { webhooks } = await startWebhooks([...bad, good]);
  announce(webhooks, events);
  // A second wave of messages comes while the first ones wait for a receiver that hangs.
  await until(() => good.received >= events / 3);
  announce(webhooks, 10);
  await until(() => good.received >= events + 10);
  // A receiver that hangs gets one call of ten seconds at a time.
  for (const one of bad) expect([one.maxUnderWay, one.received]).toEqual([1, expect.toSatisfy((calls) => calls <= 6)]);
});

test('R132 a receiver that recovers gets its pending messages, several at a time', async () => {
  let isHanging = true;
  const one = await receiver(() => isHanging);
  const { webhooks } = await startWebhooks([one]);
  announce(webhooks, 60);
  await until(() => one.received >= 1);
  isHanging = false;
  await until(() => one.received > 60);
  expect(one.maxUnderWay).toBeGreaterThan(1);
});

test('R132 a stop waits for running calls, and starts no more', async () => {
  const one = await receiver(() => true);
  const { webhooks, scheduledTasks } = await startWebhooks([one]);
  announce(webhooks, 60);
  await until(() => one.received >= 1);
  await scheduledTasks.close();
  expect(one.received).toBe(1);
  const [webhook] = (await webhooks.registered.page({ limit: 1 })).items;
  const { items } = await webhooks.messages.page(webhook?.id ?? '', { limit: 100 });
  expect(items.flatMap(({ attempts }) => attempts)).toHaveLength(1);
});
