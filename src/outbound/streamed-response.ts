/** Streamed responses: the head is a promise, and the body goes to one sink, which may slow it down. */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';

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
}

/** Follows a call without reading its body. */
interface CallObserver {
  responded?: ((status: number) => void) | undefined;
  /** Called once. `failure`: undefined also where the reader needed no more of the body. */
  ended(failure?: Error): void;
}

/** How much of a body is buffered until it has a sink; then the connection is paused. */
const MAX_BUFFERED_BYTES = 65_536;

/** Uses undici's `dispatch`, which costs a third of `request`: that makes a Node stream and a signal for each body. */
export function openStream(
  dispatcher: Dispatcher,
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

  const fail = (error: Error): void => {
    if (ended || failure) return;
    failure = error;
    reject(error);
    sink?.fail(error);
  };
  const destroy = (error: Error): void => {
    if (ended) return;
    fail(error);
    controller?.abort(error);
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
      observer.ended();
      sink?.end();
    },
    onResponseError(_controller, error) {
      observer.ended(isDropped ? undefined : error);
      fail(error);
    },
  };
  dispatcher.dispatch(options, handler);
  return { response: promise, destroy };
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
