/** Makes one call and reads its whole response, limited in bytes and by a signal. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { OutboundError } from './outbound-error.ts';

/** Rejects with errors of undici, the reason of the signal, or `OutboundError`. */
export async function wholeResponse(
  request: Promise<Dispatcher.ResponseData>,
  { maxBytes, signal }: { maxBytes: number; signal: AbortSignal },
): Promise<Response> {
  const { statusCode, headers, body } = await beforeAbort(signal, request);
  try {
    if (isEncoded(headers)) {
      throw new OutboundError('encoding', 'the response is compressed, although no compression was requested');
    }
    const bytes = await readCapped(body, maxBytes);
    const isEmpty = [204, 205, 304].includes(statusCode);
    return new Response(isEmpty ? null : bytes, { status: statusCode, headers: plainHeaders(headers) });
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

function plainHeaders(headers: IncomingHttpHeaders): Headers {
  const plain = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const one of [value].flat()) if (one !== undefined) plain.append(name, one);
  }
  return plain;
}
