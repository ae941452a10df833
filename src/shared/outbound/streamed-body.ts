/** The body of a response as it arrives: it is written to one sink, which can pause it. */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';

/** A response without its content codings (RFC 9110 section 8.4). */
export interface StreamedResponse {
  statusCode: number;
  headers: IncomingHttpHeaders;
  body: StreamedBody;
  /** `Content-Length` of a compressed body, which is not one of the headers: decompressed, the body is longer. */
  compressedLength?: string | undefined;
}

export interface BodySink {
  /** Returns false to pause the body until `resume`. */
  write(chunk: Buffer): boolean;
  end(): void;
  /** Called if the body was cut off or destroyed. */
  fail(error: Error): void;
}

export interface StreamedBody {
  /** Returns the whole body if it has arrived and has no sink; an alternative to `take`. */
  whole(): Buffer | undefined;
  /** Writes the buffered bytes to the sink at once, and the rest as it arrives. */
  take(sink: BodySink): void;
  resume(): void;
  /** Ends the call and closes its connection, unless the body is complete. */
  destroy(error: Error): void;
}

/** Returns the body as a Node stream. */
export function readableOf(body: StreamedBody): Readable {
  const readable = new Readable({
    read: body.resume,
    destroy(error, done) {
      body.destroy(error ?? new Error('The rest of the response is not needed.'));
      done(error);
    },
  });
  body.take({
    write: (chunk) => readable.push(chunk),
    end: () => readable.push(null),
    fail: (error) => readable.destroy(error),
  });
  return readable;
}
