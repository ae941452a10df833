/** R133: if the status of a response decides, its body cannot turn it into a failure; real servers that misbehave. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDelivery } from '../../../src/gatehouse/webhooks/delivery.ts';
import type { WebhookMessage } from '../../../src/gatehouse/webhooks/message.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type EndedCall, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { isWhole } from '../../../src/shared/outbound/whole-response.ts';
import { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import { refreshFailure } from '../../../src/shared/provider/token-refresh.ts';
import { type Capture, captureResponse } from '../../../src/shared/provider/token-response.ts';
import { until } from '../../support/until.ts';

const MAX_BYTES = 1_000;
const SHORT_DEADLINE = { deadlineMilliseconds: 3_000 };
const LONG_DEADLINE = { deadlineMilliseconds: 120_000 };
const TEXT = 'begins with this text. ';
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

/** Bodies by name; those of `KINDS` cannot be read to their end. */
const BODIES: Record<string, (res: ServerResponse) => void> = {
  'of 100 KB': (res) => res.end(TEXT.repeat(4_000)),
  'that was compressed and cut off': (res) =>
    res.setHeader('content-encoding', 'gzip').end(gzipSync(TEXT).subarray(0, -9)),
  'with an unknown encoding': (res) => res.setHeader('content-encoding', 'compress').end(TEXT),
  'that never ends': (res) => res.write(TEXT),
  'that arrives byte by byte': (res) => {
    res.write(TEXT);
    const timer = setInterval(() => res.write('.'), 100);
    res.once('close', () => clearInterval(timer));
  },
  'that is cut off': (res) => res.write(TEXT, () => res.destroy()),
  'that is announced but not sent': (res) => res.setHeader('content-length', '100').flushHeaders(),
};
const KINDS = Object.keys(BODIES);
/** Only the deadline ends the wait for these. */
const ENDLESS = ['that never ends', 'that arrives byte by byte', 'that is announced but not sent'];
Object.assign(BODIES, {
  empty: (res: ServerResponse) => res.end(),
  'of 1,000 bytes': (res: ServerResponse) => res.end('a'.repeat(MAX_BYTES)),
  compressed: (res: ServerResponse) => res.setHeader('content-encoding', 'gzip').end(gzipSync(TEXT)),
});

let url: string;
let outbound: Outbound;
let openConnections = 0;
const endedCalls: EndedCall[] = [];
/** Paths: `/STATUS/KIND`. */
const server = createServer((req, res) => {
  req.resume();
  const [, status, kind] = decodeURIComponent(req.url ?? '').split('/');
  res.statusCode = Number(status);
  (BODIES[kind ?? ''] ?? (() => res.destroy()))(res);
});
beforeAll(async () => {
  server.on('connection', (socket) => {
    openConnections += 1;
    socket.once('close', () => {
      openConnections -= 1;
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  outbound = createOutbound({
    policy: createAddressPolicy(['127.0.0.1', '127.0.0.2']),
    onEnded: (call) => void endedCalls.push(call),
  });
});
afterAll(async () => {
  await outbound.close();
  server.closeAllConnections();
  server.close();
});

const urlOf = (status: number, kind: string) => `${url}${status}/${encodeURIComponent(kind)}`;
const fetch = (status: number, kind: string, statusDecides = false) => {
  const deadline = ENDLESS.includes(kind) && !statusDecides ? SHORT_DEADLINE : LONG_DEADLINE;
  return outbound.fetch(urlOf(status, kind), { method: 'POST' }, { ...deadline, maxBytes: MAX_BYTES, statusDecides });
};
const deliverTo = (target: string) => {
  const webhooks = { target: async () => ({ url: target, secrets: [SECRET], disabled: false }) };
  const message = { id: 'm1', webhook: 'w1', body: '{}' } as WebhookMessage;
  return createDelivery({ webhooks, outbound, clock: Date.now })(message, { manual: false });
};

test('R133 a partial body is kept, and does not turn the status into a failure if the status decides', async () => {
  const responses = await Promise.all(KINDS.map((kind) => fetch(200, kind, true)));
  for (const response of responses) {
    expect(response.status).toBe(200);
    expect(await response.text()).toMatch(/^(?:$|begins with this text)/);
  }
  expect(endedCalls.map(({ outcome }) => outcome)).toEqual(KINDS.map(() => '2xx'));
});

test('R133 an invalid body does not hide an error status', async () => {
  const statuses = [302, 401, 404, 429, 503];
  const responses = await Promise.all(statuses.flatMap((status) => KINDS.map((kind) => fetch(status, kind))));
  expect(responses.map(({ status }) => status)).toEqual(statuses.flatMap((status) => KINDS.map(() => status)));
  // Each body is marked as partial.
  expect(responses.filter(isWhole)).toEqual([]);
});

test.each(['empty', 'of 1,000 bytes'])('R133 a body that is %s is complete', async (kind) => {
  expect(isWhole(await fetch(403, kind))).toBe(true);
});

test('R133 a refresh that receives an error page does not count as refused by the provider', async () => {
  const outcomes = [403, 404].flatMap((status) =>
    [...KINDS, 'empty'].map(async (kind) => {
      const captured: Capture = {};
      await captureResponse(await fetch(status, kind), captured, Date.now());
      return refreshFailure(captured, new ProviderError('invalid', 'no_response')).kind;
    }),
  );
  const expected = [...KINDS.map(() => 'unavailable'), 'unclear_refusal'];
  expect(await Promise.all(outcomes)).toEqual([...expected, ...expected]);
});

test('R28 a success or a 400 fails with its body', async () => {
  const calls = [200, 400].flatMap((status) => KINDS.map((kind) => fetch(status, kind)));
  for (const result of await Promise.allSettled(calls))
    expect(result).toMatchObject({ status: 'rejected', reason: expect.any(OutboundError) });
});

test('R133 a message is delivered by its status', async () => {
  const outcomes = await Promise.all(
    [202, 500].flatMap((status) => KINDS.map((kind) => deliverTo(urlOf(status, kind)))),
  );
  const [delivered, failed] = [outcomes.slice(0, KINDS.length), outcomes.slice(KINDS.length)];
  expect(delivered).toEqual(KINDS.map(() => expect.objectContaining({ status: 202, isDelivered: true })));
  expect(failed).toEqual(KINDS.map(() => expect.objectContaining({ status: 500, isDelivered: false })));
});

test('R133 the response of a receiver behind a CDN that compresses unasked is stored as text', async () => {
  const failed = { status: 500, responseBody: TEXT };
  expect(await deliverTo(urlOf(500, 'compressed'))).toMatchObject(failed);
});

test('R133 a body that is not read to its end releases its connection and its slot', async () => {
  await until(() => openConnections <= 1 && outbound.load().running === 0);
});

test.each([
  ['a port that nothing listens at', () => 'http://127.0.0.1:1/', /^127\.0\.0\.1:1 refused the connection/],
  [
    'a name that does not exist',
    () => 'https://no-such-host.invalid/',
    /^the name no-such-host\.invalid cannot be res/,
  ],
  ['a server that closes the connection', () => url, /^127\.0\.0\.1:\d+ closed the connection before/],
  ['a server without TLS', () => url.replace('http:', 'https:'), /^127\.0\.0\.1:\d+ did not respond with TLS/],
])('R133 a failed delivery to %s reports the cause with the host', async (_name, address, cause) => {
  expect(await deliverTo(address())).toEqual({ error: expect.stringMatching(cause) });
});
