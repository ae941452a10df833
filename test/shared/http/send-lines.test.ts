/** An export that breaks off: the client notices it, and only failures of Gatehouse are errors. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Response } from 'express';
import { expect, onTestFinished, test } from 'vitest';
import { sendLines } from '../../../src/shared/http/send-lines.ts';

async function* failing() {
  yield 'first\n';
  throw new Error('the storage is gone');
}

async function* endless() {
  for (;;) yield 'line\n'.repeat(10_000);
}

/** Resolves with the error of `sendLines`, if any. */
async function exportTo(lines: AsyncIterable<string>, read: (url: string) => Promise<void>): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const listener: RequestListener = (_req, res) =>
    void sendLines(res as Response, lines).then(() => resolve(undefined), resolve);
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  await read(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  return promise;
}

test('a failure during the export is thrown, and the client notices that the response is incomplete', async () => {
  const thrown = await exportTo(failing(), async (url) => {
    await expect(fetch(url).then((response) => response.text())).rejects.toThrow();
  });
  expect(thrown).toMatchObject({ message: 'the storage is gone' });
});

test('a disconnected client causes no error', async () => {
  const thrown = await exportTo(endless(), async (url) => {
    const client = new AbortController();
    await fetch(url, { signal: client.signal });
    client.abort();
  });
  expect(thrown).toBeUndefined();
});
