/** Responses that a server compresses although no call requests it: read whole and streamed, within their limits. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  brotliCompressSync,
  deflateRawSync,
  deflateSync,
  gzipSync,
  constants as zlibConstants,
  zstdCompressSync,
} from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { boundedBody } from '../../../src/shared/outbound/bounded-body.ts';
import { createOutbound, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { readableOf } from '../../../src/shared/outbound/streamed-body.ts';
import { isWhole } from '../../../src/shared/outbound/whole-response.ts';
import { until } from '../../support/until.ts';

const MAX_BYTES = 200_000;
const LIMITS = { deadlineMilliseconds: 120_000, maxBytes: MAX_BYTES };
const TEXT = JSON.stringify({ text: 'A thread. '.repeat(10_000), end: true });

let outbound: Outbound;
let origin: string;
let respond: (res: ServerResponse) => void;
let connections = 0;
const server = createServer((_req, res) => respond(res));
server.on('connection', () => {
  connections += 1;
});
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
});
afterAll(async () => {
  await outbound.close();
  server.closeAllConnections();
  server.close();
});

/** Responds with these bytes, in two parts so that a coding ends and begins within a chunk. */
function sends(bytes: Uint8Array | string, encoding: string | string[], status = 200) {
  respond = (res) => {
    const [half, content] = [Math.floor(bytes.length / 2), Buffer.from(bytes)];
    res.setHeader('content-encoding', encoding);
    res.writeHead(status, { 'content-length': content.length, etag: '"1"' });
    res.write(content.subarray(0, half), () => res.end(content.subarray(half)));
  };
}

const fetchText = async (limits = LIMITS) => (await outbound.fetch(`${origin}/`, {}, limits)).text();

/** Reads the response as a relayed one is read. */
async function streamText(maxBytes = MAX_BYTES): Promise<{ text: string; headers: object }> {
  const { headers, body } = await outbound.stream({ origin, path: '/' }, []).response;
  const chunks: Buffer[] = [];
  const limits = { maxBytes, totalMilliseconds: 120_000 };
  for await (const chunk of readableOf(boundedBody(body, limits))) chunks.push(chunk);
  return { text: Buffer.concat(chunks).toString(), headers };
}

const errorOf = (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => Promise.reject(new Error('The call did not fail.')),
    (error: Error) => error,
  );

describe('R28 a compressed response', () => {
  test.each<[string, string | string[], (text: string) => Uint8Array | string]>([
    ['gzip', 'gzip', gzipSync],
    ['gzip, under its old name', 'x-gzip', gzipSync],
    ['gzip of several members', 'gzip', (text) => Buffer.concat([gzipSync(text.slice(0, 9)), gzipSync(text.slice(9))])],
    ['br', 'br', brotliCompressSync],
    ['zstd', 'zstd', zstdCompressSync],
    ['deflate', 'deflate', deflateSync],
    ['deflate without the header of zlib', 'deflate', deflateRawSync],
    ['a name in capitals', 'GZIP', gzipSync],
    ['two codings', 'gzip, br', (text) => brotliCompressSync(gzipSync(text))],
    ['three codings', 'deflate,gzip , br', (text) => brotliCompressSync(gzipSync(deflateRawSync(text)))],
    ['two codings in two headers', ['br', 'gzip'], (text) => gzipSync(brotliCompressSync(text))],
    ['one coding twice', 'gzip, gzip', (text) => gzipSync(gzipSync(text))],
    ['an empty element', ', gzip,', gzipSync],
    ['identity', 'identity', (text) => text],
    ['identity beside a coding', 'Identity, gzip', gzipSync],
    ['an empty header', '', (text) => text],
  ])('with %s is read', async (_name, encoding, compress) => {
    sends(compress(TEXT), encoding);
    expect(await fetchText()).toBe(TEXT);
    const { text, headers } = await streamText();
    expect(text).toBe(TEXT);
    expect(headers).not.toHaveProperty('content-encoding');
  });

  test('has a weak entity tag and no length, since both are those of the compressed body', async () => {
    sends(gzipSync(TEXT), 'gzip');
    const { headers } = await streamText();
    expect(headers).toMatchObject({ etag: 'W/"1"' });
    expect(headers).not.toHaveProperty('content-length');
    sends(TEXT, 'identity');
    expect((await streamText()).headers).toMatchObject({ etag: '"1"', 'content-length': String(TEXT.length) });
  });

  test('may be empty, although nothing is then compressed', async () => {
    sends('', 'gzip');
    expect(await fetchText()).toBe('');
    expect((await streamText()).text).toBe('');
  });

  test('that decompresses to exactly the limit is read, and to one byte more is refused', async () => {
    sends(gzipSync('a'.repeat(1_000)), 'gzip');
    expect(await fetchText({ ...LIMITS, maxBytes: 1_000 })).toHaveLength(1_000);
    expect((await streamText(1_000)).text).toHaveLength(1_000);
    expect(await errorOf(fetchText({ ...LIMITS, maxBytes: 999 }))).toMatchObject({ reason: 'too_large' });
    await expect(streamText(999)).rejects.toThrow('too large');
  });

  test('that is an error keeps the part of its body that could be read', async () => {
    sends(gzipSync(TEXT), 'gzip', 404);
    const response = await outbound.fetch(`${origin}/`, {}, LIMITS);
    expect([response.status, await response.text(), isWhole(response)]).toEqual([404, TEXT, true]);
    sends(gzipSync(TEXT).subarray(0, -9), 'gzip', 503);
    const partial = await outbound.fetch(`${origin}/`, {}, LIMITS);
    expect([partial.status, isWhole(partial)]).toEqual([503, false]);
  });
});

describe('R28 a response that cannot be decompressed', () => {
  const cut = (bytes: Uint8Array) => bytes.subarray(0, bytes.length - 9);
  test.each<[string, string, Uint8Array | string]>([
    ['cut off, gzip', 'gzip', cut(gzipSync(TEXT))],
    ['cut off, br', 'br', cut(brotliCompressSync(TEXT))],
    ['cut off, zstd', 'zstd', cut(zstdCompressSync(TEXT))],
    ['cut off, deflate', 'deflate', cut(deflateSync(TEXT))],
    ['cut off, deflate without a header', 'deflate', cut(deflateRawSync(TEXT))],
    ['cut off in the inner coding', 'gzip, br', brotliCompressSync(cut(gzipSync(TEXT)))],
    ['not compressed, gzip', 'gzip', TEXT],
    ['not compressed, br', 'br', TEXT],
    ['with a wrong checksum', 'gzip', Buffer.concat([gzipSync(TEXT).subarray(0, -8), Buffer.alloc(8, 7)])],
  ])('%s: says so', async (_name, encoding, bytes) => {
    sends(bytes, encoding);
    const expected = { reason: 'encoding', message: expect.stringMatching(/cannot be decompressed \(\w+\)/) };
    for (const read of [fetchText, streamText]) {
      const error = await errorOf(read());
      expect(error).toBeInstanceOf(OutboundError);
      expect(error).toMatchObject({ ...expected, advice: expect.stringContaining('CDN') });
    }
  });

  test.each([
    ['compress', 'a content encoding that Gatehouse cannot read (compress)'],
    ['gzip, x-made-up', 'a content encoding that Gatehouse cannot read (x-made-up)'],
    ['utf-8', 'a content encoding that Gatehouse cannot read (utf-8)'],
    ['constructor', 'a content encoding that Gatehouse cannot read (constructor)'],
    ['a secret in 30 characters or so', 'a content encoding that Gatehouse cannot read'],
    ['gzip, gzip, gzip, gzip', 'more than 3 content encodings'],
  ])('with the encoding %s: names it, with advice', async (encoding, cause) => {
    sends(TEXT, encoding);
    for (const read of [fetchText, streamText]) {
      expect(await errorOf(read())).toMatchObject({
        reason: 'encoding',
        message: `the response has ${cause}`,
        advice: expect.stringContaining('uncompressed, or with gzip'),
      });
    }
  });
});

describe('R96 a compressed bomb', () => {
  const zeros = Buffer.alloc(100 * 2 ** 20);
  const fast = { params: { [zlibConstants.BROTLI_PARAM_QUALITY]: 1 } };
  const EMPTY_MEMBERS = Buffer.concat(Array(200_000).fill(gzipSync('')));

  test.each<[string, string, () => Uint8Array]>([
    ['gzip', 'gzip', () => gzipSync(zeros)],
    ['br', 'br', () => brotliCompressSync(zeros, fast)],
    ['zstd', 'zstd', () => zstdCompressSync(zeros)],
    ['in two codings', 'gzip, gzip', () => gzipSync(gzipSync(zeros))],
  ])('%s: is refused at the limit, with bounded memory', async (_name, encoding, bomb) => {
    sends(bomb(), encoding);
    await fetchText().catch(() => undefined);
    const before = process.memoryUsage.rss();
    for (let round = 0; round < 5; round += 1) {
      expect(await errorOf(fetchText())).toMatchObject({ reason: 'too_large' });
      await expect(streamText()).rejects.toThrow('too large');
    }
    expect((process.memoryUsage.rss() - before) / 2 ** 20).toBeLessThan(64);
    await until(() => outbound.load().running === 0);
  });

  test.each([
    ['that decompresses to nothing', 'gzip', () => EMPTY_MEMBERS],
    ['whose inner coding decompresses to nothing', 'gzip, gzip', () => gzipSync(EMPTY_MEMBERS)],
  ])('%s: is not read without end', async (_name, encoding, bomb) => {
    sends(bomb(), encoding);
    for (const read of [fetchText, streamText])
      expect(await errorOf(read())).toMatchObject({ reason: 'encoding', message: expect.stringContaining('gzip') });
    await until(() => outbound.load().running === 0);
  });

  test('that its reader no longer wants ends with its connection', async () => {
    sends(gzipSync(zeros), 'gzip');
    const { body } = await outbound.stream({ origin, path: '/' }, []).response;
    const readable = readableOf(body);
    readable.once('data', () => readable.destroy());
    await once(readable, 'close');
    await until(() => outbound.load().running === 0);
  });
});

test('a slow reader pauses the server, and gets the whole body', async () => {
  const text = Array.from({ length: 60_000 }, (_, index) => `line ${index} of many`).join('\n');
  sends(gzipSync(text), 'gzip');
  const { body } = await outbound.stream({ origin, path: '/' }, []).response;
  let received = '';
  await new Promise<void>((resolve, reject) => {
    body.take({
      write(chunk) {
        received += chunk.toString();
        setImmediate(body.resume);
        return false;
      },
      end: resolve,
      fail: reject,
    });
  });
  expect(received).toBe(text);
});

test('a connection is used again after a compressed response', async () => {
  sends(gzipSync(TEXT), 'gzip');
  await fetchText();
  const before = connections;
  for (let round = 0; round < 5; round += 1) await fetchText();
  expect(connections - before).toBeLessThan(5);
});
