/** Makes one call and reads its response, limited in bytes and by a signal: the whole one, where the body decides anything. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { OutboundError } from './outbound-error.ts';

/** How long a body may take of a response whose status decides. */
const BEGINNING_MS = 1_000;

/**
 * A body that is too long, compressed, late or cut off makes the call fail only where it decides something: that of a success,
 * and of a 400, which says what was refused (RFC 6749 section 5.2). Of other responses, what came of it is kept.
 * Rejects with errors of undici, the reason of the signal, or `OutboundError`.
 * @param limits `statusDecides`: no body decides anything, and none is waited for longer than a second
 */
export async function wholeResponse(
  request: Promise<Dispatcher.ResponseData>,
  { maxBytes, signal, statusDecides = false }: { maxBytes: number; signal: AbortSignal; statusDecides?: boolean },
): Promise<Response> {
  const { statusCode, headers, body } = await beforeAbort(signal, request);
  if (statusDecides || (statusCode >= 300 && statusCode !== 400)) {
    const bytes = isEncoded(headers) ? undefined : await beginningOf(body, maxBytes, statusDecides);
    body.on('error', () => undefined).destroy();
    return responseOf(statusCode, headers, bytes);
  }
  try {
    if (isEncoded(headers)) {
      throw new OutboundError('encoding', 'the response is compressed, although no compression was requested');
    }
    const bytes = await readCapped(body, maxBytes);
    return responseOf(statusCode, headers, bytes);
  } catch (error) {
    body.on('error', () => undefined).destroy();
    throw error;
  }
}

/** True for a compressed body. No call accepts one, since it could be of any size once it is unpacked. */
export function isEncoded({ 'content-encoding': encoding }: IncomingHttpHeaders): boolean {
  // undici returns an array for a repeated header. The list may be empty (RFC 9110 sections 5.6.1 and 8.4).
  return encoding !== undefined && !/^(identity|[\s,])*$/i.test(String(encoding));
}

/** Rejects on abort also while the call waits: undici watches the signal only once it sends the request. */
export function beforeAbort<T>(signal: AbortSignal, response: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    response.then(resolve, reject);
  });
}

async function readCapped(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) throw new OutboundError('too_large', `the response is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** What came of the body until its end, its failure, the limit or the deadline. Never rejects. */
async function beginningOf(body: Readable, maxBytes: number, isBrief: boolean): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  let room = maxBytes;
  const timer = isBrief ? setTimeout(() => body.destroy(), BEGINNING_MS) : undefined;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk.subarray(0, room));
      room -= chunk.length;
      if (room <= 0) break;
    }
  } catch {
    // It broke off, or the deadline of the call has passed: the status is there.
  } finally {
    clearTimeout(timer);
  }
  return Buffer.concat(chunks);
}

function responseOf(status: number, headers: IncomingHttpHeaders, bytes: Buffer<ArrayBuffer> | undefined): Response {
  const isEmpty = [204, 205, 304].includes(status);
  return new Response(isEmpty ? null : bytes, { status, headers: plainHeaders(headers) });
}

function plainHeaders(headers: IncomingHttpHeaders): Headers {
  const plain = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const one of [value].flat()) if (one !== undefined) plain.append(name, one);
  }
  return plain;
}
