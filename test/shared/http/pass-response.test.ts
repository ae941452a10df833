/** Passes another server's response on as it arrives, whole or in pieces, until the caller disconnects. */
import { once } from 'node:events';
import { get, type IncomingMessage, type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { AppError } from '../../../src/shared/errors.ts';
import { type PassedResponse, passResponse } from '../../../src/shared/http/pass-response.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound } from '../../../src/shared/outbound/outbound.ts';
import { OutboundError } from '../../../src/shared/outbound/outbound-error.ts';
import { type StopSwitch, stopError } from '../../../src/shared/outbound/stop.ts';
import type { BodySink, StreamedBody } from '../../../src/shared/outbound/streamed-body.ts';
import { LONG_TIMEOUT } from '../../support/until.ts';
import { type Served, serve } from './serve.ts';

type Open = (stop: StopSwitch) => Promise<PassedResponse>;

let served: Served;
let openCall: Open;
/** The outcome of the last passed call. */
let outcome: Promise<unknown>;
let sent: ServerResponse;
beforeEach(async () => {
  served = await serve((req, res) => {
    req.context = { id: 'id-of-this', reference: 'f-this-1', route: '/passed', address: '192.0.2.1' };
    sent = res;
    outcome = passResponse(req, res, openCall).then(
      () => 'passed',
      (error: unknown) => {
        res.destroy();
        return error;
      },
    );
  });
});
afterEach(() => served.close());

const HEAD = { status: 207, headers: { 'Content-Type': 'text/plain', ETag: '"v1"' } };

async function call(): Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }> {
  const request = get(served.url, { agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) };
}

const completeBody = (bytes: Buffer): StreamedBody => ({
  whole: () => bytes,
  take: () => expect.fail('A complete body is not read in pieces.'),
  resume() {},
  destroy() {},
});

function bodyInPieces(send: (sink: BodySink) => void) {
  const take = (sink: BodySink) => void setImmediate(send, sink);
  return { whole: () => undefined, take, resume: vi.fn<() => void>(), destroy() {} };
}

test.each([0, 1, 300, 16_384, 16_385, 50_000])('a complete body of %i bytes is passed on', async (length) => {
  const bytes = Buffer.from(Array.from({ length }, (_, index) => index % 256));
  openCall = async () => ({ ...HEAD, body: completeBody(bytes) });
  const { status, headers, body } = await call();
  expect([status, headers['content-type'], headers.etag]).toEqual([207, 'text/plain', '"v1"']);
  expect(body.equals(bytes)).toBe(true);
  expect(await outcome).toBe('passed');
});

test('a body is passed on piece by piece, under one head', async () => {
  openCall = async () => ({
    ...HEAD,
    body: bodyInPieces((sink) => {
      expect(sink.write(Buffer.from('one '))).toBe(true);
      sink.write(Buffer.from('two'));
      sink.end();
    }),
  });
  const { status, headers, body } = await call();
  expect([status, headers.etag, body.toString()]).toEqual([207, '"v1"', 'one two']);
  expect(await outcome).toBe('passed');
});

test('the head of an empty body is sent', async () => {
  openCall = async () => ({ ...HEAD, body: bodyInPieces((sink) => sink.end()) });
  const { status, headers, body } = await call();
  expect([status, headers.etag, body.length]).toEqual([207, '"v1"', 0]);
});

test('a caller that reads slowly slows the platform down, and gets the whole body', async () => {
  const mebibyte = Buffer.alloc(1_048_576, 'x');
  let wasFull = false;
  const body = bodyInPieces((sink) => {
    for (let count = 0; count < 16; count += 1) wasFull = !sink.write(mebibyte);
    body.resume.mockImplementationOnce(() => sink.end());
  });
  openCall = async () => ({ ...HEAD, body });
  const response = await call();
  expect([wasFull, response.body.length]).toEqual([true, 16 * mebibyte.length]);
  expect(body.resume).toHaveBeenCalled();
});

const BROKEN_OFF = { code: 'platform_error', logDetail: 'the response of the platform broke off' };

test('a body that breaks off at once is an error before the head is sent', async () => {
  const cause = new Error('reset');
  const headsSent: boolean[] = [];
  const callWith = (body: () => StreamedBody) => {
    openCall = async () => ({ ...HEAD, body: body() });
    return call().catch(() => headsSent.push(sent.headersSent));
  };
  await callWith(() => bodyInPieces((sink) => sink.fail(cause)));
  expect(await outcome).toMatchObject({ ...BROKEN_OFF, cause });

  await callWith(() => ({
    ...completeBody(Buffer.alloc(0)),
    whole() {
      throw cause;
    },
  }));
  expect(await outcome).toMatchObject({ ...BROKEN_OFF, cause });
  expect(headsSent).toEqual([false, false]);
});

test('R133 a body that cannot be read is an error before the head is sent, which names the cause', async () => {
  const cause = new OutboundError(
    'encoding',
    'the response has a content encoding that Gatehouse cannot read (compress)',
  );
  openCall = async () => ({ ...HEAD, body: bodyInPieces((sink) => sink.fail(cause)) });
  await call().catch(() => undefined);
  expect(await outcome).toMatchObject({ code: 'platform_error', logDetail: cause.message, cause });
});

test('the response stays unfinished if the body breaks off later', async () => {
  const cause = new Error('reset');
  openCall = async () => ({
    ...HEAD,
    body: bodyInPieces((sink) => {
      sink.write(Buffer.from('half of'));
      setImmediate(() => sink.fail(cause));
    }),
  });
  await expect(call()).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(await outcome).toMatchObject({ ...BROKEN_OFF, cause });
  expect(sent.writableFinished).toBe(false);
});

test('an error of the call is thrown unchanged', async () => {
  const failure = new Error('not connected');
  openCall = () => Promise.reject(failure);
  await call().catch(() => undefined);
  expect(await outcome).toBe(failure);
});

test('a caller that disconnects stops the call, one that has the whole response does not', async () => {
  const stops: StopSwitch[] = [];
  openCall = async (stop) => {
    stops.push(stop);
    return { ...HEAD, body: completeBody(Buffer.from('all')) };
  };
  await call();
  await vi.waitFor(() => expect(sent.closed).toBe(true), LONG_TIMEOUT);

  openCall = async (stop) => {
    stops.push(stop);
    return { ...HEAD, body: bodyInPieces((sink) => sink.write(Buffer.from('the beginning'))) };
  };
  const request = get(served.url, { agent: false }).on('error', () => undefined);
  await once(request, 'response');
  request.destroy();
  expect(await outcome).toBe('passed');
  expect(stops.map(({ stopped }) => stopped)).toEqual([false, true]);
});

test('R96 the rest of a body that has arrived compressed is dropped once the caller has disconnected', async () => {
  const platform = await serve((_req, res) => {
    res.setHeader('Content-Encoding', 'gzip');
    res.end(gzipSync(Buffer.alloc(12 * 1_048_576)));
  });
  const outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  onTestFinished(async () => {
    await outbound.close();
    await platform.close();
  });
  const dropped = Promise.withResolvers<unknown>();
  openCall = async (stop) => {
    const platformCall = outbound.stream(outbound.target(`${platform.url}/`), []);
    stop.endStepWith(() => platformCall.destroy(stopError(false)));
    const { body } = await platformCall.response;
    const take = (sink: BodySink) => body.take({ ...sink, fail: dropped.resolve });
    return { ...HEAD, body: { ...body, take } };
  };
  const request = get(served.url, { agent: false }).on('error', () => undefined);
  await once(request, 'response');
  // The whole body has arrived, and most of it is not decompressed yet.
  await vi.waitFor(() => expect(outbound.load().running).toBe(0), LONG_TIMEOUT);
  request.destroy();
  expect(await dropped.promise).toBeInstanceOf(Error);
});

test.each([
  ['platform_error', 'passed'],
  // The error must be logged, although the caller has disconnected.
  ['storage_unavailable', expect.objectContaining({ code: 'storage_unavailable' })],
] as const)('R123 a call that ends with %s because the caller disconnected', async (code, expected) => {
  const called = Promise.withResolvers<void>();
  openCall = (stop) =>
    new Promise((_resolve, reject) => {
      stop.endStepWith(() => reject(new AppError(code)));
      called.resolve();
    });
  const request = get(served.url, { agent: false }).on('error', () => undefined);
  await called.promise;
  request.destroy();
  await vi.waitFor(() => expect(sent.closed).toBe(true), LONG_TIMEOUT);
  expect(await outcome).toEqual(expected);
});

test('R123 a body that ends because the caller disconnected is not a failure of the platform', async () => {
  openCall = async (stop) => ({
    ...HEAD,
    body: bodyInPieces((sink) => {
      stop.endStepWith(() => sink.fail(new Error('The caller no longer waits for the response.')));
      sink.write(Buffer.from('the beginning'));
    }),
  });
  const request = get(served.url, { agent: false }).on('error', () => undefined);
  await once(request, 'response');
  request.destroy();
  expect(await outcome).toBe('passed');
});

test('nothing is passed on if the caller disconnects while the call is opened', async () => {
  const opened = Promise.withResolvers<PassedResponse>();
  const called = Promise.withResolvers<StopSwitch>();
  openCall = (stop) => {
    called.resolve(stop);
    return opened.promise;
  };
  const request = get(served.url, { agent: false }).on('error', () => undefined);
  const stop = await called.promise;
  request.destroy();
  await vi.waitFor(() => expect(stop.stopped).toBe(true), LONG_TIMEOUT);

  const body = { ...completeBody(Buffer.alloc(0)), whole: () => expect.fail('The caller has disconnected.') };
  opened.resolve({ ...HEAD, body });
  expect(await outcome).toBe('passed');
});

test('no call is made if the caller has already disconnected', async () => {
  const res = { on: vi.fn(), destroyed: true } as unknown as ServerResponse;
  await passResponse({} as IncomingMessage, res, () => expect.fail('The caller has disconnected.'));
});
