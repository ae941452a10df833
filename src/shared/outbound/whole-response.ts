/** Reads the response of one call, limited in bytes and by a signal; the whole body only if its content matters. */
import type { IncomingHttpHeaders } from 'node:http';
import { OutboundError } from './outbound-error.ts';
import type { StreamedBody } from './streamed-body.ts';
import type { StreamedCall } from './streamed-response.ts';

/** Responses whose body is missing or partial. */
const incompleteResponses = new WeakSet<Response>();

/** Returns false if the body was cut off, damaged, late or too long, and must not be interpreted. */
export const isWhole = (response: Response): boolean => !incompleteResponses.has(response);

/** How long the body is read if the status decides. */
const MAX_PARTIAL_BODY_MS = 1_000;

/**
 * Reads the response. A body that is too long, damaged, late or cut off fails the call only if its content matters:
 * in a success, and in a 400, which names the error (RFC 6749 section 5.2). Other responses keep the part of their body
 * that has arrived.
 * @param limits `statusDecides`: the body does not matter, and is read for at most a second
 * @throws errors of undici, the reason of the signal, or `OutboundError`
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
      const { bytes, isComplete } = await readPartial(body, maxBytes, statusDecides);
      body.destroy(new Error('The rest of the response is not needed.'));
      const response = toResponse(statusCode, headers, bytes);
      if (!isComplete) incompleteResponses.add(response);
      return response;
    }
    return toResponse(statusCode, headers, await readCapped(body, maxBytes));
  } finally {
    signal.removeEventListener('abort', stop);
  }
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
      // `destroy` does not reach the sink of a body that has arrived completely.
      end: () => (size > maxBytes ? reject(tooLarge()) : resolve(Buffer.concat(chunks))),
      fail: reject,
    });
  });
}

interface PartialBody {
  bytes: Buffer<ArrayBuffer>;
  isComplete: boolean;
}

/** Reads the body until its end, its failure, the limit or the deadline. */
function readPartial(body: StreamedBody, maxBytes: number, hasTimeLimit: boolean): Promise<PartialBody> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let remainingBytes = maxBytes;
    const finish = (isComplete: boolean) => {
      clearTimeout(timer);
      resolve({ bytes: Buffer.concat(chunks), isComplete });
    };
    const timer = hasTimeLimit ? setTimeout(finish, MAX_PARTIAL_BODY_MS, false) : undefined;
    body.take({
      write(chunk) {
        if (remainingBytes > 0) chunks.push(chunk.subarray(0, remainingBytes));
        remainingBytes -= chunk.length;
        if (remainingBytes < 0) finish(false);
        return remainingBytes >= 0;
      },
      end: () => finish(true),
      // The body was cut off, or the call's deadline has passed, but the status has arrived.
      fail: () => finish(false),
    });
  });
}

function toResponse(status: number, headers: IncomingHttpHeaders, bytes: Buffer<ArrayBuffer>): Response {
  const isEmpty = [204, 205, 304].includes(status);
  return new Response(isEmpty ? null : bytes, { status, headers: toHeaders(headers) });
}

function toHeaders(incoming: IncomingHttpHeaders): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming)) {
    for (const value of [values].flat()) if (value !== undefined) headers.append(name, value);
  }
  return headers;
}
