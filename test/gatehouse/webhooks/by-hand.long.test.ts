/** What administrators do with a webhook, at two processes: test, resend, read and rotate; and the health that they see. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { withCheckDigit } from '../../support/bins.ts';
import { type Fleet, startFleet } from '../../support/fleet.ts';
import { until } from '../../support/until.ts';
import { isSigned, type Receiver, startReceiver } from '../../support/webhook-receiver.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

interface Message {
  id: string;
  event: string;
  state: string;
  body: string;
  nextAt: string | null;
  attempts: { at: string; status: number | null; error: string | null; manual: boolean; responseBody: string | null }[];
}

let fleet: Fleet;
let receiver: Receiver;
/** Administrators at the first and at the second process. */
let admin: Administrator;
let otherAdmin: Administrator;
beforeAll(async () => {
  receiver = await startReceiver();
  fleet = await startFleet({ kind: 'SQLite', processes: 2 });
  admin = await createAdministrator(fleet.member(0), fleet.storage);
  otherAdmin = await createAdministrator(fleet.member(1), fleet.storage);
});
beforeEach(() => {
  receiver.setResponse(204);
  receiver.received.length = 0;
});
afterAll(async () => {
  await fleet?.close();
  receiver?.close();
});

const createWebhook = async (changes: object = {}) => {
  const webhook = { url: receiver.url, events: ['connection.created'], ...changes };
  const { status, json } = await admin.call('POST', '/webhooks', webhook);
  expect(status).toBe(201);
  return json as { id: string; secret: string; version: number };
};
const readWebhook = async (id: string) => (await otherAdmin.call('GET', `/webhooks/${id}`)).json;
const readMessages = async (id: string, query = '') =>
  (await otherAdmin.call('GET', `/webhooks/${id}/messages${query}`)).json as { items: Message[]; next?: string };
const deleteWebhook = (id: string) => admin.call('DELETE', `/webhooks/${id}`);
const readEntries = async (id: string) =>
  (await admin.call('GET', `/audit?target=${id}`)).json.items as { event: string; facts?: object }[];

test('a test message is signed like other messages, and its attempt is returned and listed', async () => {
  const { id, secret } = await createWebhook();
  receiver.setResponse(200, 'thank you');
  const { status, json } = await admin.call('POST', `/webhooks/${id}/test`);
  expect([status, json]).toMatchObject([
    200,
    {
      event: 'webhook.test',
      state: 'delivered',
      nextAt: null,
      attempts: [{ status: 200, responseBody: 'thank you' }],
    },
  ]);

  expect(receiver.received).toHaveLength(1);
  const [received] = receiver.received;
  expect(received && isSigned(received, secret)).toBe(true);
  expect(received?.body).toBe(json.body);
  expect(received?.headers['webhook-id']).toBe(json.id);
  expect(JSON.parse(String(json.body))).toMatchObject({ type: 'webhook.test', data: { webhook: id } });

  expect((await readMessages(id)).items).toMatchObject([{ id: json.id, state: 'delivered' }]);
  expect((await otherAdmin.call('GET', `/webhooks/${id}/messages/${json.id}`)).json).toEqual(json);
  expect(await readEntries(id)).toMatchObject([{ event: 'webhook.tested' }, { event: 'webhook.created' }]);
  await deleteWebhook(id);
});

test('a failed test message is not repeated, and a disabled webhook can be tested', async () => {
  const { id } = await createWebhook({ disabled: true });
  receiver.setResponse(500, 'no such table: orders');
  const { json } = await admin.call('POST', `/webhooks/${id}/test`);
  expect(json).toMatchObject({
    state: 'failed',
    nextAt: null,
    attempts: [{ status: 500, manual: true, responseBody: 'no such table: orders' }],
  });
  expect((await readEntries(id)).map(({ event }) => event)).not.toContain('webhook.failed');
  await deleteWebhook(id);
});

test('a webhook is failing from its first failed attempt until one succeeds or the URL changes', async () => {
  const { id, version } = await createWebhook();
  expect(await readWebhook(id)).toMatchObject({ failingSince: null, lastAttempt: null });

  receiver.setResponse(503);
  await admin.call('POST', `/webhooks/${id}/test`);
  const { failingSince } = await readWebhook(id);
  expect(failingSince).toMatch(/^20/);
  await otherAdmin.call('POST', `/webhooks/${id}/test`);
  expect(await readWebhook(id)).toMatchObject({ failingSince, lastAttempt: { status: 503 } });
  expect((await admin.call('GET', '/webhooks')).json.items).toMatchObject([{ id, failingSince }]);

  const disabled = await createWebhook({ disabled: true, events: ['connection.removed'] });
  const listIds = async (query: string) => {
    const { json } = await otherAdmin.call('GET', `/webhooks?${query}`);
    return (json.items as { id: string }[]).map((webhook) => webhook.id);
  };
  expect(await listIds('state=failing')).toEqual([id]);
  expect(await listIds('state=disabled')).toEqual([disabled.id]);
  expect(await listIds('state=active')).toEqual([]);
  expect(await listIds('event=connection.removed')).toEqual([disabled.id]);
  expect((await otherAdmin.call('GET', '/webhooks?state=broken')).status).toBe(400);
  await deleteWebhook(disabled.id);

  receiver.setResponse(204);
  await otherAdmin.call('POST', `/webhooks/${id}/test`);
  expect(await listIds('state=active')).toEqual([id]);
  expect(await readWebhook(id)).toMatchObject({ failingSince: null, lastAttempt: { status: 204 } });

  receiver.setResponse(503);
  await admin.call('POST', `/webhooks/${id}/test`);
  expect(await listIds('state=failing')).toEqual([id]);
  const withOtherUrl = { url: `${receiver.url}/moved`, events: ['connection.created'], disabled: false, version };
  expect((await admin.call('PUT', `/webhooks/${id}`, withOtherUrl)).status).toBe(200);
  expect(await readWebhook(id)).toMatchObject({ failingSince: null, lastAttempt: null });
  await deleteWebhook(id);
});

test('a message is resent with its id and body; until it is delivered, the automatic attempts continue', async () => {
  const { id, secret } = await createWebhook();
  receiver.setResponse(500, 'down');
  await fleet.signIn('user@example.test');
  // The third attempt comes a minute after the second, so no attempt comes in between.
  await until(async () => ((await readMessages(id)).items[0]?.attempts.length ?? 0) >= 2);
  const [message] = (await readMessages(id)).items as [Message];
  const path = `/webhooks/${id}/messages/${message.id}`;

  const resent = (await otherAdmin.call('POST', `${path}/resend`)).json as unknown as Message;
  expect(resent).toMatchObject({
    state: 'pending',
    attempts: [...message.attempts.map(() => ({ manual: false })), { manual: true, responseBody: 'down' }],
  });
  // The manual attempt does not move the next automatic one.
  expect(resent.nextAt).toBe(message.nextAt);

  receiver.setResponse(200, 'ok');
  const delivered = (await admin.call('POST', `${path}/resend`)).json as unknown as Message;
  expect(delivered).toMatchObject({ state: 'delivered', nextAt: null });
  expect(delivered.attempts.at(-1)).toMatchObject({ status: 200, manual: true, responseBody: 'ok' });

  // A delivered message can be resent as well, and stays delivered if that attempt fails.
  receiver.setResponse(404);
  expect((await otherAdmin.call('POST', `${path}/resend`)).json).toMatchObject({ state: 'delivered', nextAt: null });

  const receivedMessages = receiver.received.filter(({ headers }) => headers['webhook-id'] === message.id);
  expect(receivedMessages.length).toBeGreaterThanOrEqual(4);
  for (const received of receivedMessages) {
    expect(received.body).toBe(delivered.body);
    expect(isSigned(received, secret)).toBe(true);
  }
  const entries = await readEntries(id);
  expect(entries.filter(({ event }) => event === 'webhook.message_resent')).toHaveLength(3);
  expect(JSON.stringify(entries)).not.toContain(receiver.url);
  await deleteWebhook(id);
});

test('all of six concurrent attempts at two processes are recorded', async () => {
  const { id } = await createWebhook();
  const { json } = await admin.call('POST', `/webhooks/${id}/test`);
  const path = `/webhooks/${id}/messages/${json.id}/resend`;
  const administrators = [admin, otherAdmin, admin, otherAdmin, admin, otherAdmin];
  await Promise.all(administrators.map(({ call }) => call('POST', path)));

  const message = (await otherAdmin.call('GET', `/webhooks/${id}/messages/${json.id}`)).json;
  // The attempt of the test, and six more.
  expect(message.attempts).toHaveLength(7);
  await deleteWebhook(id);
});

test('messages are paged and filtered by state; those of another webhook are not found', async () => {
  const { id } = await createWebhook();
  const otherWebhook = await createWebhook();
  for (const status of [204, 500, 204]) {
    receiver.setResponse(status);
    await admin.call('POST', `/webhooks/${id}/test`);
  }

  const idsOf = ({ items }: { items: Message[] }) => items.map((message) => message.id);
  const messageIds = idsOf(await readMessages(id));
  const [newest, failed, oldest] = messageIds;
  const page1 = await readMessages(id, '?limit=2');
  expect(idsOf(page1)).toEqual([newest, failed]);
  const page2 = await readMessages(id, `?limit=2&after=${encodeURIComponent(String(page1.next))}`);
  expect(idsOf(page2)).toEqual([oldest]);
  expect(page2.next).toBeUndefined();
  expect(idsOf(await readMessages(id, '?state=failed'))).toEqual([failed]);

  for (const path of [`/webhooks/${otherWebhook.id}/messages/${newest}`, `/webhooks/${id}/messages/msg_unknown`]) {
    expect((await otherAdmin.call('GET', path)).status).toBe(404);
    expect((await otherAdmin.call('POST', `${path}/resend`)).status).toBe(404);
  }

  // A deleted webhook leaves no records.
  const { store } = fleet.storage;
  for (const messageId of messageIds) expect(await store.get(`webhook-message:{webhooks}:${messageId}`)).toBeDefined();
  await Promise.all([deleteWebhook(id), deleteWebhook(otherWebhook.id)]);
  for (const messageId of messageIds) {
    expect(await store.get(`webhook-message:{webhooks}:${messageId}`)).toBeUndefined();
  }
  for (const kind of ['response', 'failing']) {
    expect(await store.get(`webhook-${kind}:{webhooks}:${id}`)).toBeUndefined();
  }
});

test('after a rotation the new secret and the previous one sign; without an overlap only the new one', async () => {
  const { id, secret: firstSecret } = await createWebhook();
  const rotate = async (body: object) => (await otherAdmin.call('POST', `/webhooks/${id}/rotate`, body)).json;
  /** Sends a message, and returns for each of these secrets whether it has signed the message. */
  const areSigning = async (...secrets: string[]) => {
    await admin.call('POST', `/webhooks/${id}/test`);
    const message = receiver.received.at(-1);
    if (!message) throw new Error('The receiver has no message.');
    return secrets.map((secret) => isSigned(message, secret));
  };

  const firstRotation = await rotate({ overlapSeconds: 3_600 });
  const secondSecret = String(firstRotation.secret);
  expect(secondSecret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(Date.parse(String(firstRotation.overlapEndsAt)) - Date.now()).toBeGreaterThan(3_590_000);
  expect(await areSigning(firstSecret, secondSecret)).toEqual([true, true]);

  const secondRotation = await rotate({});
  const thirdSecret = String(secondRotation.secret);
  expect(await areSigning(firstSecret, secondSecret, thirdSecret)).toEqual([false, true, true]);

  const thirdRotation = await rotate({ overlapSeconds: 0 });
  expect(thirdRotation.overlapEndsAt).toBeNull();
  const fourthSecret = String(thirdRotation.secret);
  expect(await areSigning(secondSecret, thirdSecret, fourthSecret)).toEqual([false, false, true]);

  for (const overlapSeconds of [-1, 2_592_001]) {
    expect((await admin.call('POST', `/webhooks/${id}/rotate`, { overlapSeconds })).status).toBe(400);
  }
  expect(JSON.stringify([await readWebhook(id), await readEntries(id)])).not.toContain('whsec_');
  expect(await readEntries(id)).toContainEqual(
    expect.objectContaining({ event: 'webhook.rotated', facts: { overlapSeconds: 86_400 } }),
  );
  await deleteWebhook(id);
});

test('stores only the beginning of a response, without secrets that it repeats', async () => {
  const { id, secret } = await createWebhook();
  receiver.setResponse(400, `${secret} ${'x'.repeat(5_000)}`);
  const { json } = await admin.call('POST', `/webhooks/${id}/test`);
  const [{ responseBody }] = json.attempts as [{ responseBody: string }];
  expect(responseBody).toBe(`whsec_… ${'x'.repeat(992)}`);
  await deleteWebhook(id);
});

test('a stored response has no card number and no token', async () => {
  const { id } = await createWebhook();
  const card = withCheckDigit('400012345678901');
  const token = 'gthr_8KqVabcdefgAbCdEfGhIjKlMnOpQrStUvWxYz';
  const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl';
  const { secret } = await createWebhook({ events: ['connection.removed'] });
  receiver.setResponse(400, JSON.stringify({ card, token, jwt, secret, reason: 'unknown user' }));
  const { json } = await admin.call('POST', `/webhooks/${id}/test`);
  const [{ responseBody }] = json.attempts as [{ responseBody: string }];
  expect(JSON.parse(responseBody)).toEqual({
    card: '[digits removed]',
    token: 'gthr_8KqVabcdefg…',
    jwt: 'eyJ…',
    secret: 'whsec_…',
    reason: 'unknown user',
  });
  await deleteWebhook(id);
});
