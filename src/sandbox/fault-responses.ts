/** Sends the faults that replace a response. */
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FaultKind } from './faults.ts';

const HUGE_BYTES = 200 * 1024 * 1024;
const CHUNK = Buffer.alloc(64 * 1024, 'x');

/** Returns true if the fault is the whole response, and false if the request must be handled as usual. */
export async function sendFault(res: ServerResponse, fault: FaultKind): Promise<boolean> {
  switch (fault.kind) {
    case 'error':
      return send(res, 500, 'text/html', '<!doctype html><title>500</title><h1>Internal Server Error</h1>');
    case 'unavailable':
      res.setHeader('Retry-After', String(fault.retryAfterSeconds ?? 5));
      return send(res, 503, 'application/json', JSON.stringify({ error: 'temporarily_unavailable' }));
    case 'garbage':
      return send(res, 200, 'application/json', randomBytes(512));
    case 'response':
      return sendScripted(res, fault);
    case 'drip':
      return stream(res, drip(fault.intervalMs ?? 1000));
    case 'huge':
      return stream(res, huge(fault.bytes ?? HUGE_BYTES));
    case 'truncated':
      return cutAfter(res, { 'Content-Type': 'application/json', 'Content-Length': '4096' }, '{"active":true,"thr');
    case 'reset':
      return reset(res, fault.when ?? 'before_headers');
    default:
      return false;
  }
}

function send(res: ServerResponse, status: number, type: string, body: string | Uint8Array): true {
  res.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) }).end(body);
  return true;
}

function sendScripted(res: ServerResponse, fault: Extract<FaultKind, { kind: 'response' }>): true {
  const { status, body = '', headers = {} } = fault;
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  const type = String(res.getHeader('content-type') ?? (typeof body === 'string' ? 'text/plain' : 'application/json'));
  const isUnchanged = typeof body === 'string' || body instanceof Uint8Array;
  return send(res, status, type, isUnchanged ? body : JSON.stringify(body));
}

async function reset(res: ServerResponse, when: 'before_headers' | 'after_headers' | 'after_handling') {
  if (when === 'after_handling') return false;
  if (when === 'after_headers') return cutAfter(res, { 'Content-Type': 'application/json' }, '{"');
  res.socket?.resetAndDestroy();
  return true;
}

/** Waits until the bytes are sent, because destroying the socket at once would discard them. */
async function cutAfter(res: ServerResponse, headers: Record<string, string>, start: string): Promise<true> {
  res.writeHead(200, headers);
  await new Promise<void>((resolve) => res.write(start, () => resolve()));
  await sleep(20);
  res.socket?.destroy();
  return true;
}

async function stream(res: ServerResponse, chunks: AsyncIterable<Buffer | string>): Promise<true> {
  res.writeHead(200, { 'Content-Type': 'application/json' });
  // `drip` and `huge` usually end when the caller disconnects.
  await pipeline(Readable.from(chunks), res).catch(() => undefined);
  return true;
}

async function* drip(intervalMs: number) {
  yield '"';
  for (;;) {
    await sleep(intervalMs, undefined, { ref: false });
    yield 'x';
  }
}

async function* huge(bytes: number) {
  yield '"';
  for (let remaining = bytes - 2; remaining > 0; remaining -= CHUNK.length)
    yield CHUNK.subarray(0, Math.min(remaining, CHUNK.length));
  yield '"';
}
