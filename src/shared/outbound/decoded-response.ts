/**
 * Decompresses responses. No call accepts compression, but some CDNs compress nevertheless. The limits of a call count
 * what is read from here, so decompressed bytes.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import { OutboundError } from './outbound-error.ts';
import type { BodySink, StreamedBody, StreamedResponse } from './streamed-body.ts';

/** The codings of RFC 9110 section 8.4.1, RFC 7932 and RFC 8878, except `compress`. */
const DECODERS: Readonly<Record<string, (firstByte: number) => Transform>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  // Some servers leave out the header of zlib (RFC 1950 section 2.2), whose first byte ends in 8.
  deflate: (firstByte) => ((firstByte & 0x0f) === 8 ? createInflate() : createInflateRaw()),
  br: () => createBrotliDecompress(),
  // The largest window that a decoder must support (RFC 9659 section 3).
  zstd: () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: 23 } }),
};

const MAX_CODINGS = 3;

/**
 * How many more bytes a body may have compressed than decompressed. Without this limit, a body that decompresses to
 * nothing would be read without end.
 */
const MAX_EXCESS_BYTES = 1024 * 1024;

/**
 * Returns the response without its content codings. The body fails with an `OutboundError` if it cannot be
 * decompressed. Its length is unknown, and its entity tag becomes a weak one, since it names the compressed body (RFC
 * 9110 section 8.8.1).
 */
export function decodedResponse(response: StreamedResponse): StreamedResponse {
  const { 'content-encoding': codingList, ...headers } = response.headers;
  const codings = codingsIn(codingList);
  if (codings.length === 0) return { ...response, headers };
  const { 'content-length': compressedLength, etag, ...otherHeaders } = headers;
  return {
    ...response,
    headers: { ...otherHeaders, ...(etag !== undefined && { etag: etag.startsWith('W/') ? etag : `W/${etag}` }) },
    body: decodedBody(response.body, codings),
    compressedLength,
  };
}

/** Returns the codings in the order in which they were applied, without `identity`. */
function codingsIn(list: IncomingHttpHeaders[string]): string[] {
  // undici returns an array for a repeated header, and the list may be empty (RFC 9110 sections 5.6.1 and 8.4).
  const codings = String(list).split(',');
  return codings.map((coding) => coding.trim().toLowerCase()).filter((coding) => !/^(identity)?$/.test(coding));
}

function decodedBody(body: StreamedBody, codings: readonly string[]): StreamedBody {
  const unknown = codings.find((coding) => !Object.hasOwn(DECODERS, coding));
  if (unknown !== undefined || codings.length > MAX_CODINGS) return unreadableBody(body, unknown);
  return codings.reduceRight((outer, coding) => decompressedBody(outer, coding), body);
}

/** Returns a body that fails as soon as it is read. @param coding undefined if there are too many codings */
function unreadableBody(body: StreamedBody, coding: string | undefined): StreamedBody {
  const name = coding !== undefined && /^[a-z0-9._-]{1,20}$/.test(coding) ? ` (${coding})` : '';
  const error = new OutboundError(
    'encoding',
    coding === undefined
      ? `the response has more than ${MAX_CODINGS} content encodings`
      : `the response has a content encoding that Gatehouse cannot read${name}`,
    'Set that server, or the CDN in front of it, to send its responses uncompressed, or with gzip, br, zstd or deflate.',
  );
  return {
    ...body,
    whole: () => undefined,
    take(sink) {
      body.destroy(error);
      sink.fail(error);
    },
  };
}

function decompressedBody(body: StreamedBody, coding: string): StreamedBody {
  let decoder: Transform | undefined;
  let bodySink: BodySink | undefined;
  let compressedBytes = 0;
  let decompressedBytes = 0;
  let isOver = false;
  let failure: Error | undefined;

  /** Returns false if the body is over already. */
  const finish = (reason: Error): boolean => {
    if (isOver) return false;
    isOver = true;
    body.destroy(reason);
    decoder?.destroy();
    return true;
  };
  const fail = (error: Error): void => {
    if (!finish(error)) return;
    failure = error;
    bodySink?.fail(error);
  };
  const startDecoder = (sink: BodySink, firstByte: number): Transform => {
    const started = DECODERS[coding]?.(firstByte) as Transform;
    started.on('data', (chunk: Buffer) => {
      decompressedBytes += chunk.length;
      if (!isOver && !sink.write(chunk)) started.pause();
    });
    started.on('end', () => {
      if (finish(new Error('The compressed body has ended.'))) sink.end();
    });
    started.on('error', () => fail(damagedError(coding)));
    started.on('drain', body.resume);
    return started;
  };

  return {
    whole: () => undefined,
    take(sink) {
      if (failure) return sink.fail(failure);
      bodySink = sink;
      body.take({
        write(chunk) {
          if (isOver) return false;
          compressedBytes += chunk.length;
          if (compressedBytes > decompressedBytes + MAX_EXCESS_BYTES) {
            fail(damagedError(coding));
            return false;
          }
          decoder ??= startDecoder(sink, chunk[0] ?? 0);
          return decoder.write(chunk);
        },
        end() {
          if (decoder) decoder.end();
          // A body without a byte is no compressed data, but servers send it with the header nevertheless.
          else if (finish(new Error('The body is empty.'))) sink.end();
        },
        fail,
      });
    },
    resume: () => decoder?.resume(),
    destroy: fail,
  };
}

function damagedError(coding: string): OutboundError {
  return new OutboundError(
    'encoding',
    `the response cannot be decompressed (${coding}): it is damaged or incomplete`,
    'Check that server, and the CDN or proxy in front of it.',
  );
}
