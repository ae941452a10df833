/**
 * Streamed responses: the head is a promise, and the body goes to one sink, which may slow it down.
 * By hand, since a passed response of 2 KB took 102 µs of CPU so, and 273 µs with undici's `request`, an `AbortSignal`, a stream
 * that limits the bytes, and `pipeline`: a Node stream and a signal for each body.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { isClosed, type Pools, wasUsed } from './dispatcher.ts';
import type { Place } from './upstream-gate.ts';

export interface StreamedResponse {
  statusCode: number;
  headers: IncomingHttpHeaders;
  body: StreamedBody;
}

export interface BodySink {
  /** Returns false to pause the body until `resume`. */
  write(chunk: Buffer): boolean;
  end(): void;
  /** The body broke off, or was destroyed. */
  fail(error: Error): void;
}

export interface StreamedBody {
  /** The whole body where it has arrived and has no sink; undefined otherwise. Takes the place of `take`. */
  whole(): Buffer | undefined;
  /** Writes what has arrived to the sink at once, and the rest as it arrives. */
  take(sink: BodySink): void;
  resume(): void;
  /** Ends the call and closes its connection, unless the body is complete. */
  destroy(error: Error): void;
}

export interface StreamedCall {
  /** Rejects with an error of undici, or with that of `destroy`. */
  response: Promise<StreamedResponse>;
  destroy(error: Error): void;
  /** False where no byte of the request has been sent so far. */
  wasSent(): boolean;
}

/** Follows a call without reading its body. */
interface CallObserver {
  responded?: ((status: number) => void) | undefined;
  /** Called once. `failure`: undefined also where the reader needed no more of the body. */
  ended(failure?: Error): void;
}

/** How much of a body is buffered until it has a sink; then the connection is paused. */
const MAX_BUFFERED_BYTES = 65_536;

/**
 * Makes a call once it is its turn. A GET uses a kept connection, and is sent once more on a new one where the other side
 * closed a used connection before the first byte of the response (RFC 9110 section 9.2.2). Another request has a new
 * connection of its own, and is sent once. A connection that is reset before anything was sent is tried again once.
 */
export function openStream(
  { pools, place }: { pools: Pools; place: Place },
  options: Dispatcher.DispatchOptions,
  observer: CallObserver,
): StreamedCall {
  const { promise, resolve, reject } = Promise.withResolvers<StreamedResponse>();
  let controller: Dispatcher.DispatchController | undefined;
  let buffered: Buffer[] = [];
  let bufferedBytes = 0;
  let sink: BodySink | undefined;
  let ended = false;
  let failure: Error | undefined;
  let isDropped = false;
  /** No longer waits for its turn. */
  let begun = false;
  let isSent = false;
  let hasResponded = false;
  let isSecond = false;
  const isRepeatable = options.method === 'GET';

  const leave = (error?: Error): void => {
    place.leave();
    observer.ended(error);
  };
  const fail = (error: Error): void => {
    if (ended || failure) return;
    failure = error;
    reject(error);
    sink?.fail(error);
  };
  const destroy = (error: Error): void => {
    if (ended || failure) return;
    fail(error);
    if (begun) controller?.abort(error);
    else leave(isDropped ? undefined : error);
  };
  const body: StreamedBody = {
    whole: () => (ended && !sink ? takeBuffered() : undefined),
    take(bodySink) {
      sink = bodySink;
      const full = buffered.map((chunk) => bodySink.write(chunk)).includes(false);
      buffered = [];
      if (failure) bodySink.fail(failure);
      else if (ended) bodySink.end();
      else if (full) controller?.pause();
      else if (bufferedBytes >= MAX_BUFFERED_BYTES) controller?.resume();
    },
    resume: () => controller?.resume(),
    destroy(error) {
      isDropped ||= !failure;
      destroy(error);
    },
  };
  const takeBuffered = (): Buffer => {
    const [only, ...others] = buffered;
    buffered = [];
    return only && others.length === 0 ? only : Buffer.concat(only ? [only, ...others] : []);
  };

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(started) {
      controller = started;
      if (failure) started.abort(failure);
      else isSent = true;
    },
    onResponseStarted() {
      hasResponded = true;
    },
    onResponseStart(_controller, statusCode, headers) {
      // An interim response (1xx) precedes the final one.
      if (statusCode < 200) return;
      observer.responded?.(statusCode);
      resolve({ statusCode, headers, body });
    },
    onResponseData(running, chunk) {
      if (sink) {
        if (!sink.write(chunk)) running.pause();
        return;
      }
      buffered.push(chunk);
      bufferedBytes += chunk.length;
      if (bufferedBytes >= MAX_BUFFERED_BYTES) running.pause();
    },
    onResponseEnd() {
      ended = true;
      leave();
      sink?.end();
    },
    onResponseError(_controller, error) {
      if (isWorthASecond(error)) {
        isSecond = true;
        controller = undefined;
        pools.fresh.dispatch(options, handler);
        return;
      }
      leave(isDropped ? undefined : error);
      fail(error);
    },
  };
  const isWorthASecond = (error: Error): boolean =>
    !isSecond && !failure && !hasResponded && isClosed(error) && (isSent ? isRepeatable && wasUsed(error) : true);
  place.begin(() => {
    begun = true;
    try {
      (isRepeatable ? pools.kept : pools.fresh).dispatch(options, handler);
    } catch (error) {
      leave(error as Error);
      fail(error as Error);
    }
  });
  return { response: promise, destroy, wasSent: () => isSent };
}

/** The body as a Node stream. */
export function readableOf(body: StreamedBody): Readable {
  const readable = new Readable({
    read: body.resume,
    destroy(error, done) {
      body.destroy(error ?? new Error('The rest of the response is not read.'));
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
