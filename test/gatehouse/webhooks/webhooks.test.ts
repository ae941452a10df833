/** Webhooks: changes of connections are sent, signed as in Standard Webhooks, and retried until they are delivered. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AuditEntry } from '../../../src/gatehouse/audit/kinds.ts';
import { signatureOf } from '../../../src/gatehouse/webhooks/delivery.ts';
import { createWebhookHealths } from '../../../src/gatehouse/webhooks/health.ts';
import { createWebhookMessages } from '../../../src/gatehouse/webhooks/messages.ts';
import { createWebhookStore, newWebhookId } from '../../../src/gatehouse/webhooks/webhook-store.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { until } from '../../support/until.ts';
import { disconnect, openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

interface Received {
  headers: IncomingHttpHeaders;
  body: string;
}

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let server: Server;
let address: string;
const received: Received[] = [];
let status = 204;
let retryAfter: string | undefined;
beforeAll(async () => {
  server = createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    received.push({ headers: req.headers, body });
    res.writeHead(status, { location: 'http://127.0.0.1:1/', ...(retryAfter && { 'retry-after': retryAfter }) }).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage.close();
  await site.close();
  server.close();
});

test('sends a created and a removed connection with a signature that the receiver can verify', async () => {
  const made = await admin.call('POST', '/webhooks', {
    url: address,
    events: ['connection.created', 'connection.removed'],
  });
  expect([made.status, made.json.secret]).toEqual([201, expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/)]);
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  await until(() => received.length >= 1);
  await disconnect(site, agent);
  await until(() => received.length >= 2);
  expect(received.map(({ body }) => JSON.parse(body))).toMatchObject([
    { type: 'connection.created', data: { user: userId, app: 'platform' } },
    { type: 'connection.removed', data: { user: userId, app: 'platform' } },
  ]);
  for (const { headers, body } of received) {
    const [id, timestamp] = [String(headers['webhook-id']), String(headers['webhook-timestamp'])];
    expect(headers['webhook-signature']).toBe(signatureOf(String(made.json.secret), id, timestamp, body));
    expect(Math.abs(Number(timestamp) - Date.now() / 1000)).toBeLessThan(30);
  }
  expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(2);
  // The receiver has a message before its response is recorded.
  const recorded = async () => (await admin.call('GET', `/webhooks/${made.json.id}/messages`)).json.items;
  await expect
    .poll(recorded)
    .toMatchObject([{ state: 'delivered', attempts: [{ result: '204' }] }, { state: 'delivered' }]);
  expect(JSON.stringify((await admin.call('GET', `/webhooks/${made.json.id}`)).json)).not.toContain('whsec_');
});

test('sends a connection that needs reconnecting, with its cause, and its recovery', async () => {
  const events = ['connection.reconnect_needed', 'connection.recovered'];
  const made = await admin.call('POST', '/webhooks', { url: address, events });
  const { agent } = await signIn(site, 'second@example.test');
  const { userId } = await sessionOf(site, agent);
  const told = () =>
    received
      .map(({ body }) => JSON.parse(body))
      .filter(({ type, data }) => events.includes(type) && data.user === userId);
  await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1_000 }));
  site.sandbox.faults.set({
    ...{ listener: 'identity-provider', path: '/token', kind: 'response', status: 400 },
    body: { error: 'invalid_grant' },
  });
  expect((await getJson(agent, `${site.url}/threads/current`)).status).toBe(403);
  site.sandbox.faults.clear();
  await until(() => told().length >= 1);
  await signIn(site, 'second@example.test');
  await until(() => told().length >= 2);
  expect(told()).toMatchObject([
    { type: 'connection.reconnect_needed', data: { user: userId, app: 'platform', cause: 'grant_refused' } },
    { type: 'connection.recovered', data: { user: userId, app: 'platform' } },
  ]);
  expect((await admin.call('DELETE', `/webhooks/${made.json.id}`)).status).toBe(204);
});

test('R79 refuses internal addresses', async () => {
  for (const url of [
    'http://10.0.0.1/',
    'http://169.254.169.254/latest',
    'http://example.com/',
    'https://u:p@example.com/',
    'nowhere',
    address.replace('//', '//u@'),
    address.replace('//', '//:p@'),
    address.replace('//', '//u:p@'),
    `${address}#fragment`,
    `${address}#`,
  ]) {
    const { status, json } = await admin.call('POST', '/webhooks', { url, events: ['connection.created'] });
    expect([url, status, json.errors]).toMatchObject([url, 400, [{ pointer: '#/url' }]]);
  }
});

test('R88 changes a webhook only over the version that was read, and sends nothing to a disabled one', async () => {
  const wanted = { url: address, events: ['connection.created'] };
  const { id, version } = (await admin.call('POST', '/webhooks', wanted)).json as { id: string; version: number };
  const off = await admin.call('PUT', `/webhooks/${id}`, { ...wanted, enabled: false, version });
  expect([off.status, off.json.enabled]).toEqual([200, false]);
  const late = await admin.call('PUT', `/webhooks/${id}`, { ...wanted, version });
  expect([late.status, late.json.code]).toEqual([409, 'version_conflict']);
  const inside = await admin.call('PUT', `/webhooks/${id}`, {
    ...wanted,
    url: 'http://10.0.0.1/',
    version: off.json.version,
  });
  expect([inside.status, inside.json.errors]).toMatchObject([400, [{ pointer: '#/url' }]]);
  await signIn(site, 'admin@example.test');
  expect((await admin.call('GET', `/webhooks/${id}/messages`)).json.items).toEqual([]);
  const { agent } = await signIn(site, 'admin@example.test');
  const { csrfToken: _csrf } = await sessionOf(site, agent);
  const send = (form: Record<string, string>) =>
    agent.request(`${site.url}/admin/webhooks/${id}`, {
      method: 'POST',
      headers: { accept: 'text/html' },
      body: new URLSearchParams({ _csrf, url: address, enabled: 'yes', ...form }),
    });
  const events = 'connection.removed';
  const tooLate = await send({ events, version: String(version) });
  expect([tooLate.status, tooLate.body]).toEqual([409, expect.stringContaining('Someone else changed this')]);
  const faulty = await send({ version: String(off.json.version) });
  expect([faulty.status, faulty.body]).toEqual([400, expect.stringContaining('at least one event')]);
  const saved = await send({ events, version: String(off.json.version) });
  expect([saved.status, saved.body]).toEqual([200, expect.stringContaining('Saved.')]);
  expect((await admin.call('GET', `/webhooks/${id}`)).json).toMatchObject({ enabled: true, events: [events] });
});

describe('a message that is not delivered', () => {
  const LATEST = { limit: 50 };
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  const sealer = createSealer('keys' in parsed ? parsed.keys : []);
  // A day ahead, so that the running site does not send these messages.
  let now = Date.now() + 86_400_000;
  const given: Pick<AuditEntry, 'event' | 'target'>[] = [];
  let outbound: Outbound;
  beforeAll(() => {
    outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  });
  afterAll(() => outbound.close());

  test('R49 of a webhook whose key is lost fails, and messages of other webhooks are delivered', async () => {
    const foreign = parseEncryptionKeys(generateEncryptionKey(new Date()));
    const lost = createSealer('keys' in foreign ? foreign.keys : []);
    const clock = () => now;
    const parts = { store: storage.store, clock, healths: createWebhookHealths(storage) };
    const wanted = { url: address, events: ['connection.recovered' as const], enabled: true };
    const both = createWebhookStore({ ...parts, sealedJson: createSealedJson(lost) });
    const { webhook: unreadable } = await both.create(newWebhookId(), wanted);
    // Announced while it could still be read.
    const earlier = createWebhookMessages({
      ...parts,
      webhooks: both,
      outbound,
      random: () => 0.5,
      audit: { note: () => undefined },
      onLost: () => undefined,
    });
    earlier.announce('connection.recovered', { user: 'u1', app: 'platform' });
    await earlier.settle();
    const webhooks = createWebhookStore({ ...parts, sealedJson: createSealedJson(sealer) });
    const { webhook: readable } = await webhooks.create(newWebhookId(), wanted);
    const messages = createWebhookMessages({
      ...parts,
      webhooks,
      outbound,
      random: () => 0.5,
      audit: { note: () => undefined },
      onLost: () => undefined,
    });
    messages.announce('connection.recovered', { user: 'u2', app: 'platform' });
    await messages.settle();
    await messages.deliver();
    expect((await messages.page(readable.id, LATEST)).items).toMatchObject([{ state: 'delivered' }]);
    expect((await messages.page(unreadable.id, LATEST)).items).toMatchObject([
      { state: 'pending', attempts: [{ result: 'the webhook cannot be opened' }] },
    ]);
    await Promise.all([webhooks.remove(readable.id), webhooks.remove(unreadable.id)]);
    now += 60_000;
    await messages.deliver();
    expect((await messages.page(unreadable.id, LATEST)).items).toMatchObject([{ state: 'failed' }]);
  });

  test('the previous secret signs exactly until the end of its overlap', async () => {
    const webhooks = createWebhookStore({
      store: storage.store,
      sealedJson: createSealedJson(sealer),
      clock: () => now,
    });
    const wanted = { url: address, events: ['connection.recovered' as const], enabled: true };
    const { webhook, secret } = await webhooks.create(newWebhookId(), wanted);
    const rotated = await webhooks.rotate(webhook.id, 60);
    expect(rotated?.webhook.overlapEndsAt).toBe(now + 60_000);
    now += 59_999;
    expect((await webhooks.target(webhook.id))?.secrets).toEqual([rotated?.secret, secret]);
    now += 1;
    expect((await webhooks.target(webhook.id))?.secrets).toEqual([rotated?.secret]);
    expect((await webhooks.find(webhook.id))?.overlapEndsAt).toBeUndefined();
    await webhooks.remove(webhook.id);
  });

  /** A webhook with one message, which is due. */
  const announced = async () => {
    const webhooks = createWebhookStore({
      store: storage.store,
      sealedJson: createSealedJson(sealer),
      clock: () => now,
    });
    const note = ({ event, target }: AuditEntry) => void given.push({ event, target });
    const messages = createWebhookMessages({
      ...{ store: storage.store, webhooks, outbound, healths: createWebhookHealths(storage) },
      ...{ clock: () => now, random: () => 0.5 },
      audit: { note },
      onLost: () => undefined,
    });
    const { webhook } = await webhooks.create(newWebhookId(), {
      url: address,
      events: ['connection.reconnect_needed'],
      enabled: true,
    });
    messages.announce('connection.reconnect_needed', { user: 'u1', app: 'platform', cause: 'grant_refused' });
    await messages.settle();
    return { webhooks, webhook, messages };
  };

  test('has 8 attempts with growing pauses, is never redirected, and then fails', async () => {
    const { webhooks, webhook, messages } = await announced();
    status = 302;
    const pauses: number[] = [];
    for (let tries = 1; tries <= 9; tries += 1) {
      await messages.deliver();
      const [message] = (await messages.page(webhook.id, LATEST)).items;
      if (message?.nextAt === undefined) break;
      pauses.push((message.nextAt - now) / 1000);
      now = message.nextAt;
    }
    const sent = received.filter(({ body }) => JSON.parse(body).data.user === 'u1');
    expect(sent).toHaveLength(8);
    expect(new Set(sent.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(pauses.map(Math.round)).toEqual([5, 60, 300, 1800, 7200, 18000, 28800]);
    const [message] = (await messages.page(webhook.id, LATEST)).items;
    expect([message?.state, message?.attempts.length]).toEqual(['failed', 8]);
    // Other due messages do not belong to this test.
    expect(given.filter(({ target }) => target?.id === webhook.id)).toMatchObject([{ event: 'webhook.failed' }]);
    await webhooks.remove(webhook.id);
    status = 204;
  });

  test.each([
    ['seconds', () => '900', 900],
    ['a date', () => new Date(now + 900_000).toUTCString(), 900],
    ['a shorter wait than the pause', () => '1', 5],
    ['a date in the past', () => 'Sun Nov  6 08:49:37 1994', 5],
    ['a year', () => '31536000', 3_600],
    ['nonsense', () => 'soon', 5],
  ])('waits as long as the receiver says with Retry-After: %s', async (_name, header, seconds) => {
    const { webhooks, webhook, messages } = await announced();
    [status, retryAfter] = [429, header()];
    await messages.deliver();
    const [message] = (await messages.page(webhook.id, LATEST)).items;
    expect(Math.abs(((message?.nextAt ?? 0) - now) / 1000 - seconds)).toBeLessThanOrEqual(1);
    await webhooks.remove(webhook.id);
    [status, retryAfter] = [204, undefined];
  });
});
