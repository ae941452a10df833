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

import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
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
let receiverUrl: string;
/** The messages that the receiver got. */
const received: Received[] = [];
let responseStatus = 204;
/** The header of the receiver's response, if it has one. */
let retryAfter: string | undefined;
beforeAll(async () => {
  server = createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    received.push({ headers: req.headers, body });
    const headers = { location: 'http://127.0.0.1:1/', ...(retryAfter && { 'retry-after': retryAfter }) };
    res.writeHead(responseStatus, headers).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  receiverUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
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
  const events = ['connection.created', 'connection.removed'];
  const { status, json: webhook } = await admin.call('POST', '/webhooks', { url: receiverUrl, events });
  expect(status).toBe(201);
  expect(webhook.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);

  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  await until(() => received.length >= 1);
  await disconnect(site, agent);
  await until(() => received.length >= 2);
  expect(received.map(({ body }) => JSON.parse(body))).toMatchObject([
    { type: 'connection.created', data: { userId, app: 'platform' } },
    { type: 'connection.removed', data: { userId, app: 'platform' } },
  ]);
  for (const { headers, body } of received) {
    const id = String(headers['webhook-id']);
    const timestamp = String(headers['webhook-timestamp']);
    expect(headers['webhook-signature']).toBe(signatureOf(String(webhook.secret), id, timestamp, body));
    expect(Math.abs(Number(timestamp) - Date.now() / 1000)).toBeLessThan(30);
  }
  expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(2);

  // The receiver has a message before its response is stored.
  const readMessages = async () => (await admin.call('GET', `/webhooks/${webhook.id}/messages`)).json.items;
  await expect
    .poll(readMessages)
    .toMatchObject([{ state: 'delivered', attempts: [{ status: 204 }] }, { state: 'delivered' }]);
  expect(JSON.stringify((await admin.call('GET', `/webhooks/${webhook.id}`)).json)).not.toContain('whsec_');
});

test('sends a connection that needs reconnecting, with its cause, and its recovery', async () => {
  const events = ['connection.reconnect_needed', 'connection.recovered'];
  const { json: webhook } = await admin.call('POST', '/webhooks', { url: receiverUrl, events });
  const { agent } = await signIn(site, 'second@example.test');
  const { userId } = await sessionOf(site, agent);
  const messagesOfUser = () =>
    received
      .map(({ body }) => JSON.parse(body))
      .filter(({ type, data }) => events.includes(type) && data.userId === userId);

  await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1_000 }));
  site.sandbox.faults.set({
    listener: 'identity-provider',
    path: '/token',
    kind: 'response',
    status: 400,
    body: { error: 'invalid_grant' },
  });
  expect((await getJson(agent, `${site.url}/threads/current`)).status).toBe(403);
  site.sandbox.faults.clear();
  await until(() => messagesOfUser().length >= 1);
  await signIn(site, 'second@example.test');
  await until(() => messagesOfUser().length >= 2);
  expect(messagesOfUser()).toMatchObject([
    { type: 'connection.reconnect_needed', data: { userId, app: 'platform', cause: 'grant_refused' } },
    { type: 'connection.recovered', data: { userId, app: 'platform' } },
  ]);
  expect((await admin.call('DELETE', `/webhooks/${webhook.id}`)).status).toBe(204);
});

test('R79 refuses an internal address, an address without TLS, and one with a user name, a password or a fragment', async () => {
  for (const url of [
    'http://10.0.0.1/',
    'http://169.254.169.254/latest',
    'http://example.com/',
    'https://u:p@example.com/',
    'nowhere',
    receiverUrl.replace('//', '//u@'),
    receiverUrl.replace('//', '//:p@'),
    receiverUrl.replace('//', '//u:p@'),
    `${receiverUrl}#fragment`,
    `${receiverUrl}#`,
  ]) {
    const { status: responseStatus, json } = await admin.call('POST', '/webhooks', {
      url,
      events: ['connection.created'],
    });
    expect([url, responseStatus, json.errors]).toMatchObject([url, 400, [{ pointer: '#/url' }]]);
  }
});

test('R88 changes a webhook only over the version that was read, and sends nothing to a disabled one', async () => {
  const webhook = { url: receiverUrl, events: ['connection.created'] };
  const { id, version } = (await admin.call('POST', '/webhooks', webhook)).json as { id: string; version: number };

  const disabled = await admin.call('PUT', `/webhooks/${id}`, { ...webhook, disabled: true, version });
  expect([disabled.status, disabled.json.disabled, disabled.json.state]).toEqual([200, true, 'disabled']);
  const { version: currentVersion } = disabled.json;
  const incomplete = await admin.call('PUT', `/webhooks/${id}`, { ...webhook, version: currentVersion });
  expect([incomplete.status, incomplete.json.errors]).toMatchObject([400, [{ pointer: '#/disabled' }]]);
  expect((await admin.call('GET', `/webhooks/${id}`)).json).toMatchObject({ disabled: true, version: currentVersion });
  const late = await admin.call('PUT', `/webhooks/${id}`, { ...webhook, disabled: false, version });
  expect([late.status, late.json.code]).toEqual([409, 'version_conflict']);
  const internal = { ...webhook, disabled: true, url: 'http://10.0.0.1/', version: currentVersion };
  const refused = await admin.call('PUT', `/webhooks/${id}`, internal);
  expect([refused.status, refused.json.errors]).toMatchObject([400, [{ pointer: '#/url' }]]);

  await signIn(site, 'admin@example.test');
  expect((await admin.call('GET', `/webhooks/${id}/messages`)).json.items).toEqual([]);

  const { agent } = await signIn(site, 'admin@example.test');
  const { csrfToken: _csrf } = await sessionOf(site, agent);
  const submitForm = (form: Record<string, string>) =>
    agent.request(`${site.url}/admin/webhooks/${id}`, {
      method: 'POST',
      headers: { accept: 'text/html' },
      body: new URLSearchParams({ _csrf, url: receiverUrl, ...form }),
    });
  const events = 'connection.removed';
  const { body } = await agent.get(`${site.url}/admin/webhooks/${id}/edit`);
  const base = / name="base" value="([^"]+)"/.exec(body)?.[1] ?? '';
  const faulty = await submitForm({ base });
  expect([faulty.status, faulty.body]).toEqual([400, expect.stringContaining('at least one event')]);
  const saved = await submitForm({ events, base });
  expect([saved.status, saved.body]).toEqual([200, expect.stringContaining('Saved.')]);
  expect((await admin.call('GET', `/webhooks/${id}`)).json).toMatchObject({ disabled: false, events: [events] });
});

describe('a message that is not delivered', () => {
  const LATEST = { limit: 50 };
  const sealedJson = createSealedJson(makeSealer());
  // A day ahead, so that the running site does not send these messages.
  let now = Date.now() + 86_400_000;
  const clock = () => now;
  const auditEntries: AuditEntry[] = [];
  let outbound: Outbound;
  beforeAll(() => {
    outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  });
  afterAll(() => outbound.close());

  const createMessages = (webhooks: ReturnType<typeof createWebhookStore>) =>
    createWebhookMessages({
      store: storage.store,
      webhooks,
      outbound,
      healths: createWebhookHealths(storage),
      clock,
      random: () => 0.5,
      audit: { note: (entry) => void auditEntries.push(entry) },
      onLost: () => undefined,
    });
  const WEBHOOK = { events: ['connection.recovered' as const], disabled: false };

  test('R49 of a webhook whose key is lost fails, and messages of other webhooks are delivered', async () => {
    // Announced to the first webhook while its key was still there.
    const sealedWithLostKey = createSealedJson(makeSealer());
    const earlierWebhooks = createWebhookStore({ store: storage.store, clock, sealedJson: sealedWithLostKey });
    const { webhook: unreadable } = await earlierWebhooks.create(newWebhookId(), { ...WEBHOOK, url: receiverUrl });
    const earlierMessages = createMessages(earlierWebhooks);
    earlierMessages.announce('connection.recovered', { userId: 'u1', app: 'platform' });
    await earlierMessages.settle();

    const webhooks = createWebhookStore({ store: storage.store, clock, sealedJson });
    const { webhook: readable } = await webhooks.create(newWebhookId(), { ...WEBHOOK, url: receiverUrl });
    const messages = createMessages(webhooks);
    messages.announce('connection.recovered', { userId: 'u2', app: 'platform' });
    await messages.settle();
    await messages.deliver();
    expect((await messages.page(readable.id, LATEST)).items).toMatchObject([{ state: 'delivered' }]);
    expect((await messages.page(unreadable.id, LATEST)).items).toMatchObject([
      { state: 'pending', attempts: [{ error: 'the webhook cannot be opened' }] },
    ]);

    await Promise.all([webhooks.remove(readable.id), webhooks.remove(unreadable.id)]);
    now += 60_000;
    await messages.deliver();
    expect((await messages.page(unreadable.id, LATEST)).items).toMatchObject([{ state: 'failed' }]);
  });

  test('is signed with the previous secret, too, exactly until the end of its overlap', async () => {
    const webhooks = createWebhookStore({ store: storage.store, sealedJson, clock });
    const { webhook, secret } = await webhooks.create(newWebhookId(), { ...WEBHOOK, url: receiverUrl });
    const rotated = await webhooks.rotate(webhook.id, 60);
    expect(rotated?.webhook.overlapEndsAt).toBe(now + 60_000);

    now += 59_999;
    expect((await webhooks.target(webhook.id))?.secrets).toEqual([rotated?.secret, secret]);

    now += 1;
    expect((await webhooks.target(webhook.id))?.secrets).toEqual([rotated?.secret]);
    expect((await webhooks.find(webhook.id))?.overlapEndsAt).toBeUndefined();
    await webhooks.remove(webhook.id);
  });

  /** Creates a webhook with one message, which is due. */
  const createDueMessage = async () => {
    const webhooks = createWebhookStore({ store: storage.store, sealedJson, clock });
    const messages = createMessages(webhooks);
    const { webhook } = await webhooks.create(newWebhookId(), {
      url: receiverUrl,
      events: ['connection.reconnect_needed'],
      disabled: false,
    });
    messages.announce('connection.reconnect_needed', { userId: 'u1', app: 'platform', cause: 'grant_refused' });
    await messages.settle();
    const readMessage = async () => (await messages.page(webhook.id, LATEST)).items[0];
    return { webhooks, webhook, messages, readMessage };
  };

  test('has 8 attempts with growing pauses, is never redirected, and then fails', async () => {
    const { webhooks, webhook, messages, readMessage } = await createDueMessage();
    responseStatus = 302;

    const pausesInSeconds: number[] = [];
    await messages.deliver();
    let nextAt = (await readMessage())?.nextAt;
    // One more than expected.
    while (nextAt !== undefined && pausesInSeconds.length < 8) {
      pausesInSeconds.push(Math.round((nextAt - now) / 1000));
      now = nextAt;
      await messages.deliver();
      nextAt = (await readMessage())?.nextAt;
    }

    const receivedMessages = received.filter(({ body }) => JSON.parse(body).data.userId === 'u1');
    expect(receivedMessages).toHaveLength(8);
    expect(new Set(receivedMessages.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(pausesInSeconds).toEqual([5, 60, 300, 1800, 7200, 18000, 28800]);
    const message = await readMessage();
    expect([message?.state, message?.attempts.length]).toEqual(['failed', 8]);
    // Entries about other webhooks do not belong to this test.
    const entriesOfWebhook = auditEntries.filter(({ target }) => target?.id === webhook.id);
    expect(entriesOfWebhook).toMatchObject([{ event: 'webhook.failed' }]);
    await webhooks.remove(webhook.id);
    responseStatus = 204;
  });

  test.each([
    ['seconds', () => '900', 900],
    ['a date', () => new Date(now + 900_000).toUTCString(), 900],
    ['a shorter wait than the pause', () => '1', 5],
    ['a date in the past', () => 'Sun Nov  6 08:49:37 1994', 5],
    ['a year', () => '31536000', 3_600],
    ['an invalid value', () => 'soon', 5],
  ])('waits as long as the receiver says with Retry-After: %s', async (_description, headerValue, seconds) => {
    const { webhooks, webhook, messages, readMessage } = await createDueMessage();
    responseStatus = 429;
    retryAfter = headerValue();

    await messages.deliver();

    const nextAt = (await readMessage())?.nextAt ?? 0;
    expect(Math.abs((nextAt - now) / 1000 - seconds)).toBeLessThanOrEqual(1);
    await webhooks.remove(webhook.id);
    responseStatus = 204;
    retryAfter = undefined;
  });
});
