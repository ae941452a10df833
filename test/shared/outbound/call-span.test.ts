/** The span of an outbound call gets the status or the failure, and ends exactly once. */
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import { readableOf } from '../../../src/shared/outbound/streamed-body.ts';

const LIMITS = { deadlineMilliseconds: 10_000, maxBytes: 1_000 };
let server: Server;
let url: string;
let respond: RequestListener;
let traceparents: unknown[];
let events: unknown[];
let outbound: Outbound;
beforeEach(async () => {
  traceparents = [];
  events = [];
  server = createServer((req, res) => {
    traceparents.push(req.headers.traceparent);
    respond(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  outbound = createOutbound({
    policy: createAddressPolicy(['127.0.0.1']),
    limits: { concurrency: 1, waiting: 0 },
    beginCall: ({ method }) => ({
      headers: { traceparent: 'trace-1' },
      responded: (status) => events.push([method, status]),
      end: (failure) => events.push(['ended', failure]),
    }),
  });
});
afterEach(async () => {
  await outbound.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const stream = () => outbound.stream(outbound.target(url), []);

test('a complete response ends its span with its status and no failure', async () => {
  respond = (_req, res) => res.end('{}');
  await outbound.fetch(url, { method: 'POST' }, LIMITS);
  for await (const _ of readableOf((await stream().response).body));
  expect(events).toEqual([
    ['POST', 200],
    ['ended', undefined],
    ['GET', 200],
    ['ended', undefined],
  ]);
  expect(traceparents).toEqual(['trace-1', 'trace-1']);
});

test('an untraced call has a span, but sends no trace context', async () => {
  respond = (_req, res) => res.end('{}');
  await outbound.fetch(url, { untraced: true }, LIMITS);
  expect([events.length, traceparents]).toEqual([2, [undefined]]);
});

test('a reader that stops early does not fail the call', async () => {
  respond = (_req, res) => res.write('{');
  const { body } = await stream().response;
  body.destroy(new Error('enough'));
  await expect
    .poll(() => events)
    .toEqual([
      ['GET', 200],
      ['ended', undefined],
    ]);
});

test('a body that is cut off, a stopped call and a refused call are failures', async () => {
  respond = (_req, res) => res.write('{', () => res.destroy());
  await expect(readableOf((await stream().response).body).toArray()).rejects.toThrow();
  expect(events.splice(0)).toEqual([
    ['GET', 200],
    ['ended', 'UND_ERR_SOCKET'],
  ]);

  respond = () => undefined;
  const waiting = stream();
  await expect(stream().response).rejects.toMatchObject({ reason: 'busy' });

  waiting.destroy(new Error('the caller disconnected'));
  await expect(waiting.response).rejects.toThrow('the caller disconnected');
  await expect
    .poll(() => events)
    .toEqual([
      ['ended', 'busy'],
      ['ended', 'stopped'],
    ]);
});

test('a refused response ends its span with the reason', async () => {
  respond = (_req, res) => res.end('x'.repeat(LIMITS.maxBytes + 1));
  await expect(outbound.fetch(url, {}, LIMITS)).rejects.toMatchObject({ reason: 'too_large' });
  expect(events).toEqual([['ended', 'too_large']]);
});
