/** Owns answers that are handed on as they come: the head as a promise, the body to one taker, which may slow it down. */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';

export interface StreamedAnswer {
  statusCode: number;
  headers: IncomingHttpHeaders;
  body: StreamedBody;
}

/** Where a body goes. */
export interface BodyTaker {
  /** Answers false where it wants no more before it calls `resume`. */
  write(chunk: Buffer): boolean;
  end(): void;
  /** The body broke off, or was destroyed. */
  fail(error: Error): void;
}

export interface StreamedBody {
  /** All of it where it has come already; it counts as taken then. Undefined where more is to come. */
  whole(): Buffer | undefined;
  /** What has come goes to the taker at once, the rest as it comes. */
  take(taker: BodyTaker): void;
  resume(): void;
  /** Ends the call, and its connection, unless it is complete. */
  destroy(error: Error): void;
}

export interface StreamedCall {
  /** Rejects with what undici reports, or with what the call was destroyed with. */
  answer: Promise<StreamedAnswer>;
  destroy(error: Error): void;
}

/** So much of a body is held while nobody takes it; then the connection is not read any further. */
const HELD_BYTES = 65_536;

/**
 * undici's `dispatch` costs a third of `request`, whose bodies are Node streams with a signal each.
 * @param leave called when nothing more comes
 */
export function openStream(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  leave: () => void,
): StreamedCall {
  const { promise, resolve, reject } = Promise.withResolvers<StreamedAnswer>();
  let controller: Dispatcher.DispatchController | undefined;
  let held: Buffer[] = [];
  let heldBytes = 0;
  let taker: BodyTaker | undefined;
  let ended = false;
  let failure: Error | undefined;

  const fail = (error: Error): void => {
    if (ended || failure) return;
    failure = error;
    reject(error);
    taker?.fail(error);
  };
  const destroy = (error: Error): void => {
    if (ended) return;
    fail(error);
    controller?.abort(error);
  };
  const body: StreamedBody = {
    whole: () => (ended && !taker ? takeHeld() : undefined),
    take(given) {
      taker = given;
      const full = held.map((chunk) => given.write(chunk)).includes(false);
      held = [];
      if (failure) given.fail(failure);
      else if (ended) given.end();
      else if (full) controller?.pause();
      else if (heldBytes >= HELD_BYTES) controller?.resume();
    },
    resume: () => controller?.resume(),
    destroy,
  };
  const takeHeld = (): Buffer => {
    const [only, ...others] = held;
    held = [];
    return only && others.length === 0 ? only : Buffer.concat(only ? [only, ...others] : []);
  };

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(started) {
      controller = started;
      if (failure) started.abort(failure);
    },
    onResponseStart(_controller, statusCode, headers) {
      // What is below 200 only announces the answer.
      if (statusCode >= 200) resolve({ statusCode, headers, body });
    },
    onResponseData(running, chunk) {
      if (taker) {
        if (!taker.write(chunk)) running.pause();
        return;
      }
      held.push(chunk);
      heldBytes += chunk.length;
      if (heldBytes >= HELD_BYTES) running.pause();
    },
    onResponseEnd() {
      leave();
      ended = true;
      taker?.end();
    },
    onResponseError(_controller, error) {
      leave();
      fail(error);
    },
  };
  dispatcher.dispatch(options, handler);
  return { answer: promise, destroy };
}

/** The body as a stream of Node's. */
export function readableOf(body: StreamedBody): Readable {
  const readable = new Readable({
    read: body.resume,
    destroy(error, done) {
      body.destroy(error ?? new Error('The answer is not read any further.'));
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
