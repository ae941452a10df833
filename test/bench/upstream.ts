/**
 * The platform of the benchmarks: returns one kilobyte of JSON that names the owner of the token, as fast as Node can.
 * Prints its port and a control port: GET /drip there makes responses stop in the middle, GET /whole makes them complete
 * again, and both return the number of open connections.
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const BYTES = 1_024;

/** Identifies the token without revealing it. */
export const ownerTag = (accessToken: string): string =>
  createHash('sha256').update(accessToken).digest('base64url').slice(0, 16);

export function threadOf(accessToken: string): Buffer {
  const thread = { thread: { id: 'bench', owner: ownerTag(accessToken), title: 'Benchmark' }, html: '' };
  const padding = 'x'.repeat(BYTES - JSON.stringify(thread).length);
  return Buffer.from(JSON.stringify({ ...thread, html: padding }));
}

if (import.meta.main) await serve();

async function serve(): Promise<void> {
  const headers = { 'content-type': 'application/json', 'content-length': String(BYTES) };
  const threads = new Map<string, Buffer>();
  let isDripping = false;
  const server = createServer((request, response) => {
    request.resume();
    const [, token] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? [];
    if (token === undefined) return response.writeHead(401).end();
    let thread = threads.get(token);
    if (!thread) {
      thread = threadOf(token);
      if (threads.size < 10_000) threads.set(token, thread);
    }
    response.writeHead(200, headers);
    if (isDripping) response.write(thread.subarray(0, 500));
    else response.end(thread);
  });
  const control = createServer((request, response) => {
    if (request.url === '/drip') isDripping = true;
    if (request.url === '/whole') isDripping = false;
    server.getConnections((_error, open) => response.end(String(open)));
  });
  server.keepAliveTimeout = 60_000;
  const ports = await Promise.all(
    [server, control].map(async (listener) => {
      await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
      return (listener.address() as AddressInfo).port;
    }),
  );
  process.stdout.write(`${ports.join(' ')}\n`);
}
