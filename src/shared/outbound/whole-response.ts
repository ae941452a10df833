/** Makes one call and reads its response, limited in bytes and by a signal: the whole one, where the body decides anything. */
import type { IncomingHttpHeaders } from 'node:http';
import { OutboundError } from './outbound-error.ts';
import type { StreamedBody, StreamedCall } from './streamed-response.ts';

/** Responses without their body, or with a part of it. */
const incomplete = new WeakSet<Response>();

/** False where a body was compressed, cut off, late or too long: what is left of it says nothing. */
export const isWhole = (response: Response): boolean => !incomplete.has(response);

/** How long a body may take of a response whose status decides. */
const BEGINNING_MS = 1_000;

/**
 * A body that is too long, compressed, late or cut off makes the call fail only where it decides something: that of a success,
 * and of a 400, which says what was refused (RFC 6749 section 5.2). Of other responses, what came of it is kept.
 * Rejects with errors of undici, the reason of the signal, or `OutboundError`.
 * @param limits `statusDecides`: no body decides anything, and none is waited for longer than a second
 */
export async function wholeResponse(
  call: StreamedCall,
  { maxBytes, signal, statusDecides = false }: { maxBytes: number; signal: AbortSignal; statusDecides?: boolean },
): Promise<Response> {
  const stop = () => call.destroy(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const { statusCode, headers, body } = await call.response;
    if (statusDecides || (statusCode >= 300 && statusCode !== 400)) {
      const beginning = isEncoded(headers) ? undefined : await beginningOf(body, maxBytes, statusDecides);
      body.destroy(new Error('The rest of the response is not read.'));
      const response = responseOf(statusCode, headers, beginning?.bytes);
      if (!beginning?.isAll) incomplete.add(response);
      return response;
    }
    if (isEncoded(headers)) {
      const error = new OutboundError('encoding', 'the response is compressed, although no compression was requested');
      body.destroy(error);
      throw error;
    }
    return responseOf(statusCode, headers, await readCapped(body, maxBytes));
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** True for a compressed body. No call accepts one, since it could be of any size once it is unpacked. */
export function isEncoded({ 'content-encoding': encoding }: IncomingHttpHeaders): boolean {
  // undici returns an array for a repeated header. The list may be empty (RFC 9110 sections 5.6.1 and 8.4).
  return encoding !== undefined && !/^(identity|[\s,])*$/i.test(String(encoding));
}

/** Rejects on abort also while the call waits for its share. */
export function beforeAbort<T>(signal: AbortSignal, response: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    response.then(resolve, reject);
  });
}

function readCapped(body: StreamedBody, maxBytes: number): Promise<Buffer<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const tooLarge = () => new OutboundError('too_large', `the response is larger than ${maxBytes} bytes`);
    body.take({
      write(chunk) {
        size += chunk.length;
        if (size <= maxBytes) chunks.push(chunk);
        else body.destroy(tooLarge());
        return size <= maxBytes;
      },
      // `destroy` does not reach the sink of a body that had arrived whole.
      end: () => (size > maxBytes ? reject(tooLarge()) : resolve(Buffer.concat(chunks))),
      fail: reject,
    });
  });
}

interface Beginning {
  bytes: Buffer<ArrayBuffer>;
  isAll: boolean;
}

/** What came of the body until its end, its failure, the limit or the deadline. */
function beginningOf(body: StreamedBody, maxBytes: number, isBrief: boolean): Promise<Beginning> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let room = maxBytes;
    const done = (isAll: boolean) => {
      clearTimeout(timer);
      resolve({ bytes: Buffer.concat(chunks), isAll });
    };
    const timer = isBrief ? setTimeout(done, BEGINNING_MS, false) : undefined;
    body.take({
      write(chunk) {
        if (room > 0) chunks.push(chunk.subarray(0, room));
        room -= chunk.length;
        if (room < 0) done(false);
        return room >= 0;
      },
      end: () => done(true),
      // It broke off, or the deadline of the call has passed: the status is there.
      fail: () => done(false),
    });
  });
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
