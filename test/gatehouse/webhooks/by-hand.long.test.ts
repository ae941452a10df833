/** Actions of administrators on a webhook, with two real processes: test, resend, read, rotate; and its health. */
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
  attempts: { at: string; result: string; manual: boolean; responseBody: string | null }[];
}

let fleet: Fleet;
let receiver: Receiver;
/** One administrator per process. */
let first: Administrator;
let second: Administrator;
beforeAll(async () => {
  receiver = await startReceiver();
  fleet = await startFleet({ kind: 'SQLite', processes: 2 });
  first = await createAdministrator(fleet.member(0), fleet.storage);
  second = await createAdministrator(fleet.member(1), fleet.storage);
});
beforeEach(() => {
  receiver.setResponse(204);
  receiver.received.length = 0;
});
afterAll(async () => {
  await fleet?.close();
  receiver?.close();
});

const make = async (changes: object = {}) => {
  const wanted = { url: receiver.url, events: ['connection.created'], ...changes };
  const { status, json } = await first.call('POST', '/webhooks', wanted);
  expect(status).toBe(201);
  return json as { id: string; secret: string; version: number };
};
const read = async (id: string) => (await second.call('GET', `/webhooks/${id}`)).json;
const messagesOf = async (id: string, query = '') =>
  (await second.call('GET', `/webhooks/${id}/messages${query}`)).json as { items: Message[]; next?: string };
const remove = (id: string) => first.call('DELETE', `/webhooks/${id}`);
const entriesOf = async (id: string) =>
  (await first.call('GET', `/audit?target=${id}`)).json.items as { event: string; facts?: object }[];

test('a test message is signed like other messages, and its result is returned and listed', async () => {
  const { id, secret } = await make();
  receiver.setResponse(200, 'thank you');
  const { status, json } = await first.call('POST', `/webhooks/${id}/test`);
  expect([status, json]).toMatchObject([
    200,
    {
      event: 'webhook.test',
      state: 'delivered',
      nextAt: null,
      attempts: [{ result: '200', responseBody: 'thank you' }],
    },
  ]);
  expect(receiver.received).toHaveLength(1);
  const [got] = receiver.received;
  expect(got && isSigned(got, secret)).toBe(true);
  expect([got?.body, got?.headers['webhook-id']]).toEqual([json.body, json.id]);
  expect(JSON.parse(String(json.body))).toMatchObject({ type: 'webhook.test', data: { webhook: id } });
  expect((await messagesOf(id)).items).toMatchObject([{ id: json.id, state: 'delivered' }]);
  expect((await second.call('GET', `/webhooks/${id}/messages/${json.id}`)).json).toEqual(json);
  expect(await entriesOf(id)).toMatchObject([{ event: 'webhook.tested' }, { event: 'webhook.created' }]);
  await remove(id);
});

test('a failed test message is not repeated, and a disabled webhook can be tested', async () => {
  const { id } = await make({ enabled: false });
  receiver.setResponse(500, 'no such table: orders');
  const { json } = await first.call('POST', `/webhooks/${id}/test`);
  expect(json).toMatchObject({
    ...{ state: 'failed', nextAt: null },
    attempts: [{ result: '500', manual: true, responseBody: 'no such table: orders' }],
  });
  expect((await entriesOf(id)).map(({ event }) => event)).not.toContain('webhook.failed');
  await remove(id);
});

test('health: failing since the first failed attempt, until one succeeds or the URL changes', async () => {
  const { id, version } = await make();
  expect(await read(id)).toMatchObject({ failingSince: null, lastResponse: null });
  receiver.setResponse(503);
  const times: unknown[] = [];
  for (const one of [first, second]) {
    await one.call('POST', `/webhooks/${id}/test`);
    times.push((await read(id)).failingSince);
  }
  expect(times).toEqual([expect.stringMatching(/^20/), times[0]]);
  expect(await read(id)).toMatchObject({ lastResponse: { result: '503' } });
  expect((await first.call('GET', '/webhooks')).json.items).toMatchObject([{ id, failingSince: times[0] }]);
  const off = await make({ enabled: false, events: ['connection.removed'] });
  const listed = async (query: string) =>
    ((await second.call('GET', `/webhooks?${query}`)).json.items as { id: string }[]).map((one) => one.id);
  expect(await Promise.all(['state=failing', 'state=disabled', 'state=active'].map(listed))).toEqual([
    [id],
    [off.id],
    [],
  ]);
  expect(await listed('event=connection.removed')).toEqual([off.id]);
  expect((await second.call('GET', '/webhooks?state=broken')).status).toBe(400);
  await remove(off.id);
  receiver.setResponse(204);
  await second.call('POST', `/webhooks/${id}/test`);
  expect(await listed('state=active')).toEqual([id]);
  expect(await read(id)).toMatchObject({ failingSince: null, lastResponse: { result: '204' } });

  const moved = { url: `${receiver.url}/moved`, events: ['connection.created'], version };
  expect((await first.call('PUT', `/webhooks/${id}`, moved)).status).toBe(200);
  expect(await read(id)).toMatchObject({ failingSince: null, lastResponse: null });
  await remove(id);
});

test('a message is resent with its id and body; its automatic attempts continue until it is delivered', async () => {
  const { id, secret } = await make();
  receiver.setResponse(500, 'down');
  await fleet.signIn('user@example.test');
  // The third attempt comes a minute after the second, so no attempt comes in between.
  await until(async () => ((await messagesOf(id)).items[0]?.attempts.length ?? 0) >= 2);
  const [message] = (await messagesOf(id)).items as [Message];
  const path = `/webhooks/${id}/messages/${message.id}`;
  const again = (await second.call('POST', `${path}/resend`)).json as unknown as Message;
  expect(again).toMatchObject({
    state: 'pending',
    attempts: [...message.attempts.map(() => ({ manual: false })), { manual: true, responseBody: 'down' }],
  });
  // The manual attempt did not move the next automatic one.
  expect(again.nextAt).toBe(message.nextAt);
  receiver.setResponse(200, 'ok');
  const delivered = (await first.call('POST', `${path}/resend`)).json as unknown as Message;
  expect(delivered).toMatchObject({ state: 'delivered', nextAt: null });
  expect(delivered.attempts.at(-1)).toMatchObject({ result: '200', manual: true, responseBody: 'ok' });
  // A delivered message can be resent as well, and stays delivered if that fails.
  receiver.setResponse(404);
  expect((await second.call('POST', `${path}/resend`)).json).toMatchObject({ state: 'delivered', nextAt: null });

  const sent = receiver.received.filter(({ headers }) => headers['webhook-id'] === message.id);
  expect(sent.length).toBeGreaterThanOrEqual(4);
  expect(new Set(sent.map(({ body }) => body))).toEqual(new Set([delivered.body]));
  expect(sent.every((one) => isSigned(one, secret))).toBe(true);
  const entries = await entriesOf(id);
  expect(entries.filter(({ event }) => event === 'webhook.message_resent')).toHaveLength(3);
  expect(JSON.stringify(entries)).not.toContain(receiver.url);
  await remove(id);
});

test('two attempts that end together are both recorded', async () => {
  const { id } = await make();
  const { json } = await first.call('POST', `/webhooks/${id}/test`);
  const path = `/webhooks/${id}/messages/${json.id}/resend`;
  await Promise.all([first, second, first, second, first, second].map((one) => one.call('POST', path)));
  expect(((await second.call('GET', `/webhooks/${id}/messages/${json.id}`)).json.attempts as []).length).toBe(7);
  await remove(id);
});

test('messages are paged and filtered by state; those of another webhook are not found', async () => {
  const [{ id }, other] = [await make(), await make()];
  for (const status of [204, 500, 204]) {
    receiver.setResponse(status);
    await first.call('POST', `/webhooks/${id}/test`);
  }
  const all = (await messagesOf(id)).items.map((one) => one.id);
  const { items, next } = await messagesOf(id, '?limit=2');
  expect([items.map((one) => one.id), next]).toEqual([all.slice(0, 2), expect.any(String)]);
  const rest = await messagesOf(id, `?limit=2&after=${encodeURIComponent(String(next))}`);
  expect([rest.items.map((one) => one.id), rest.next]).toEqual([all.slice(2), undefined]);
  expect((await messagesOf(id, '?state=failed')).items.map((one) => one.id)).toEqual([all[1]]);
  for (const path of [`/webhooks/${other.id}/messages/${all[0]}`, `/webhooks/${id}/messages/msg_unknown`]) {
    const responses = [await second.call('GET', path), await second.call('POST', `${path}/resend`)];
    expect(responses.map(({ status }) => status)).toEqual([404, 404]);
  }
  const leftOf = async () =>
    (await Promise.all(all.map((one) => fleet.storage.store.get(`webhook-message:{webhooks}:${one}`)))).filter(Boolean);
  expect(await leftOf()).toHaveLength(3);
  await Promise.all([remove(id), remove(other.id)]);
  // A deleted webhook leaves no records.
  expect(await leftOf()).toEqual([]);
  for (const kind of ['response', 'failing']) {
    expect(await fleet.storage.store.get(`webhook-${kind}:{webhooks}:${id}`)).toBeUndefined();
  }
});

test('after a rotation both secrets sign, then only the new one; without an overlap at once', async () => {
  const { id, secret } = await make();
  const rotated = await second.call('POST', `/webhooks/${id}/rotate`, { overlapSeconds: 3_600 });
  const next = String(rotated.json.secret);
  expect([rotated.status, next]).toEqual([200, expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/)]);
  expect(Date.parse(String(rotated.json.overlapEndsAt)) - Date.now()).toBeGreaterThan(3_590_000);
  const signers = async (...secrets: string[]) => {
    await first.call('POST', `/webhooks/${id}/test`);
    const last = receiver.received.at(-1);
    return secrets.map((one) => last !== undefined && isSigned(last, one));
  };
  expect(await signers(secret, next)).toEqual([true, true]);
  // A second rotation ends the oldest of three.
  const third = String((await first.call('POST', `/webhooks/${id}/rotate`, {})).json.secret);
  expect(await signers(secret, next, third)).toEqual([false, true, true]);
  const { json } = await first.call('POST', `/webhooks/${id}/rotate`, { overlapSeconds: 0 });
  expect(json.overlapEndsAt).toBeNull();
  expect(await signers(next, third, String(json.secret))).toEqual([false, false, true]);
  for (const overlapSeconds of [-1, 2_592_001]) {
    expect((await first.call('POST', `/webhooks/${id}/rotate`, { overlapSeconds })).status).toBe(400);
  }
  expect(JSON.stringify([await read(id), await entriesOf(id)])).not.toContain('whsec_');
  expect(await entriesOf(id)).toContainEqual(
    expect.objectContaining({ event: 'webhook.rotated', facts: { overlapSeconds: 86_400 } }),
  );
  await remove(id);
});

test('stores only the beginning of a response, without secrets that it repeats', async () => {
  const { id, secret } = await make();
  receiver.setResponse(400, `${secret} ${'x'.repeat(5_000)}`);
  const { json } = await first.call('POST', `/webhooks/${id}/test`);
  const [{ responseBody }] = json.attempts as [{ responseBody: string }];
  expect(responseBody).toBe(`whsec_… ${'x'.repeat(992)}`);
  await remove(id);
});

test('a stored response has no card number and no token', async () => {
  const { id } = await make();
  const card = withCheckDigit('400012345678901');
  const token = 'gthr_8KqVabcdefgAbCdEfGhIjKlMnOpQrStUvWxYz';
  const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl';
  const { secret } = await make({ events: ['connection.removed'] });
  receiver.setResponse(400, JSON.stringify({ card, token, jwt, secret, reason: 'unknown user' }));
  const { json } = await first.call('POST', `/webhooks/${id}/test`);
  const [{ responseBody }] = json.attempts as [{ responseBody: string }];
  expect(JSON.parse(responseBody)).toEqual({
    ...{ card: '[digits removed]', token: 'gthr_8KqVabcdefg…', jwt: 'eyJ…', secret: 'whsec_…' },
    reason: 'unknown user',
  });
  await remove(id);
});
