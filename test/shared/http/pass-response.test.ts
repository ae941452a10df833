/** Another server's answer is handed on as it comes: whole or in pieces, and no further than to a caller who is there. */
import { once } from 'node:events';
import { get, type IncomingMessage, type ServerResponse } from 'node:http';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AppError } from '../../../src/shared/errors.ts';
import { type PassedResponse, passResponse } from '../../../src/shared/http/pass-response.ts';
import type { StopSwitch } from '../../../src/shared/outbound/stop.ts';
import type { BodySink, StreamedBody } from '../../../src/shared/outbound/streamed-response.ts';
import { PATIENTLY } from '../../support/until.ts';
import { type Served, serve } from './serve.ts';

type Open = (stop: StopSwitch) => Promise<PassedResponse>;

let served: Served;
let open: Open;
/** What became of the call that was passed on last. */
let outcome: Promise<unknown>;
let sent: ServerResponse;
beforeEach(async () => {
  served = await serve((req, res) => {
    req.context = { id: 'id-of-this', reference: 'f-this-1', route: '/passed', address: '192.0.2.1' };
    sent = res;
    outcome = passResponse(req, res, open).then(
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
  const asking = get(served.url, { agent: false });
  const [answer] = (await once(asking, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) };
}

const whole = (bytes: Buffer): StreamedBody => ({
  whole: () => bytes,
  take: () => expect.fail('A body that is there is not taken in pieces.'),
  resume() {},
  destroy() {},
});

function pieces(give: (taker: BodySink) => void) {
  const take = (taker: BodySink) => void setImmediate(give, taker);
  return { whole: () => undefined, take, resume: vi.fn<() => void>(), destroy() {} };
}

test.each([0, 1, 300, 16_384, 16_385, 50_000])('a body of %i bytes that has come already', async (length) => {
  const bytes = Buffer.from(Array.from({ length }, (_, at) => at % 256));
  open = async () => ({ ...HEAD, body: whole(bytes) });
  const { status, headers, body } = await call();
  expect([status, headers['content-type'], headers.etag]).toEqual([207, 'text/plain', '"v1"']);
  expect(headers['content-security-policy']).toContain('sandbox');
  expect(body.equals(bytes)).toBe(true);
  expect(await outcome).toBe('passed');
});

test('one in pieces, each as it comes, under one head', async () => {
  open = async () => ({
    ...HEAD,
    body: pieces((taker) => {
      expect(taker.write(Buffer.from('one '))).toBe(true);
      taker.write(Buffer.from('two'));
      taker.end();
    }),
  });
  const { status, headers, body } = await call();
  expect([status, headers.etag, body.toString()]).toEqual([207, '"v1"', 'one two']);
  expect(await outcome).toBe('passed');
});

test('one that is empty after all has its head', async () => {
  open = async () => ({ ...HEAD, body: pieces((taker) => taker.end()) });
  const { status, headers, body } = await call();
  expect([status, headers.etag, body.length]).toEqual([207, '"v1"', 0]);
});

test('a caller who reads slowly slows the platform down, and hears all of it', async () => {
  const mebibyte = Buffer.alloc(1_048_576, 'x');
  let wasFull = false;
  const body = pieces((taker) => {
    for (let count = 0; count < 16; count += 1) wasFull = !taker.write(mebibyte);
    body.resume.mockImplementationOnce(() => taker.end());
  });
  open = async () => ({ ...HEAD, body });
  const answer = await call();
  expect([wasFull, answer.body.length]).toEqual([true, 16 * mebibyte.length]);
  expect(body.resume).toHaveBeenCalled();
});

const BROKEN_OFF = { code: 'upstream_error', logDetail: 'the response of the platform broke off' };

test('one that breaks off before anything of it was sent can still be told as a failure', async () => {
  const cause = new Error('reset');
  const sentBefore: boolean[] = [];
  const heard = (failure: () => StreamedBody) => {
    open = async () => ({ ...HEAD, body: failure() });
    return call().catch(() => sentBefore.push(sent.headersSent));
  };
  await heard(() => pieces((taker) => taker.fail(cause)));
  expect(await outcome).toMatchObject({ ...BROKEN_OFF, cause });
  await heard(() => ({
    ...whole(Buffer.alloc(0)),
    whole() {
      throw cause;
    },
  }));
  expect(await outcome).toMatchObject({ ...BROKEN_OFF, cause });
  expect(sentBefore).toEqual([false, false]);
});

test('one that breaks off later leaves its answer unfinished', async () => {
  const cause = new Error('reset');
  open = async () => ({
    ...HEAD,
    body: pieces((taker) => {
      taker.write(Buffer.from('half of'));
      setImmediate(() => taker.fail(cause));
    }),
  });
  await expect(call()).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(await outcome).toMatchObject({ ...BROKEN_OFF, cause });
  expect(sent.writableFinished).toBe(false);
});

test('what the call fails with is not taken for the platform’s doing', async () => {
  const failure = new Error('not connected');
  open = () => Promise.reject(failure);
  await call().catch(() => undefined);
  expect(await outcome).toBe(failure);
});

test('a caller who leaves stops the call, one who has heard all does not', async () => {
  const stops: StopSwitch[] = [];
  open = async (stop) => {
    stops.push(stop);
    return { ...HEAD, body: whole(Buffer.from('all')) };
  };
  await call();
  await vi.waitFor(() => expect(sent.closed).toBe(true), PATIENTLY);

  open = async (stop) => {
    stops.push(stop);
    return { ...HEAD, body: pieces((taker) => taker.write(Buffer.from('the beginning'))) };
  };
  const asking = get(served.url, { agent: false }).on('error', () => undefined);
  await once(asking, 'response');
  asking.destroy();
  expect(await outcome).toBe('passed');
  expect(stops.map(({ stopped }) => stopped)).toEqual([false, true]);
});

test.each([
  ['upstream_error', 'passed'],
  // Somebody must learn of it, although this caller no longer does.
  ['storage_unavailable', expect.objectContaining({ code: 'storage_unavailable' })],
] as const)('R123 a call that ends with %s because its caller left', async (code, expected) => {
  const asked = Promise.withResolvers<void>();
  open = (stop) =>
    new Promise((_resolve, reject) => {
      stop.whenStopped(() => reject(new AppError(code)));
      asked.resolve();
    });
  const asking = get(served.url, { agent: false }).on('error', () => undefined);
  await asked.promise;
  asking.destroy();
  await vi.waitFor(() => expect(sent.closed).toBe(true), PATIENTLY);
  expect(await outcome).toEqual(expected);
});

test('R123 a body that is cut because its caller left is no failure of the platform', async () => {
  open = async (stop) => ({
    ...HEAD,
    body: pieces((taker) => {
      stop.whenStopped(() => taker.fail(new Error('The caller no longer waits for the response.')));
      taker.write(Buffer.from('the beginning'));
    }),
  });
  const asking = get(served.url, { agent: false }).on('error', () => undefined);
  await once(asking, 'response');
  asking.destroy();
  expect(await outcome).toBe('passed');
});

test('nothing is passed to a caller who left while the call was being opened', async () => {
  const opened = Promise.withResolvers<PassedResponse>();
  const asked = Promise.withResolvers<StopSwitch>();
  open = (stop) => {
    asked.resolve(stop);
    return opened.promise;
  };
  const asking = get(served.url, { agent: false }).on('error', () => undefined);
  const stop = await asked.promise;
  asking.destroy();
  await vi.waitFor(() => expect(stop.stopped).toBe(true), PATIENTLY);
  const body = { ...whole(Buffer.alloc(0)), whole: () => expect.fail('Nobody is there.') };
  opened.resolve({ ...HEAD, body });
  expect(await outcome).toBe('passed');
});

test('nothing is asked for a caller who left before', async () => {
  const res = { on: vi.fn(), destroyed: true } as unknown as ServerResponse;
  await passResponse({} as IncomingMessage, res, () => expect.fail('Nobody is there.'));
});
