/**
 * Passes another server's response on to the caller as it arrives, and stops when the caller disconnects.
 * By hand, since `pipeline` and an `AbortSignal` for each call took 70 to 170 µs of CPU more than the 102 µs of this
 * (`outbound/streamed-response.ts`).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError, type FailedCall } from '../errors.ts';
import { createStop, type StopSwitch } from '../outbound/stop.ts';
import type { StreamedBody } from '../outbound/streamed-response.ts';
import { sendHead } from './response-head.ts';

export interface PassedResponse {
  status: number;
  headers: Record<string, string>;
  body: StreamedBody;
  /** The call that brought it, for an error of its body. */
  call?: () => FailedCall;
}

/** Up to this size, head and body are written as one string, which costs a single `write` instead of a `writev`. */
const ONE_WRITE_BYTES = 16_384;

/**
 * Resolves once the response is complete or the caller has disconnected. If the upstream body breaks off, the response is left
 * unfinished, so that the error handler can log it and close the connection.
 * @param open starts the upstream call, which is stopped when the caller disconnects
 * @throws AppError `upstream_error` if the body breaks off; any error of `open`, but for those of a caller who has
 *   disconnected: then only our own
 */
export async function passResponse(
  req: IncomingMessage,
  res: ServerResponse,
  open: (stop: StopSwitch) => Promise<PassedResponse>,
): Promise<void> {
  const stop = createStop();
  // `close` is also emitted after a complete response.
  res.on('close', () => {
    if (!res.writableFinished) stop.stop();
  });
  // The caller disconnected before the listener was added.
  if (res.destroyed) return;
  const response = await open(stop).catch((error: unknown) => {
    if (res.destroyed && !isOurs(error)) return undefined;
    throw error;
  });
  if (!response || stop.stopped) return;
  const body = completeBodyOf(response);
  if (!body) return stream(response, req, res);
  sendHead(req, res, response.status, response.headers);
  if (body.length > ONE_WRITE_BYTES) res.end(body);
  // latin1 maps each byte to one character and back, so the bytes stay the same.
  else res.end(body.toString('latin1'), 'latin1');
}

function completeBodyOf({ body, call }: PassedResponse): Buffer | undefined {
  try {
    return body.whole();
  } catch (error) {
    throw brokenOff(error, call);
  }
}

function stream(
  { status, headers, body, call }: PassedResponse,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  return new Promise((resolve, reject) => {
    // The head waits for the first byte: until then an error can still become a problem response.
    const begin = () => res.headersSent || sendHead(req, res, status, headers);
    res.on('close', resolve);
    res.on('drain', body.resume);
    body.take({
      write(chunk) {
        begin();
        return res.write(chunk);
      },
      end() {
        begin();
        res.end();
      },
      // A caller who disconnects ends the body, too, which is no failure of the platform.
      fail: (error) => (res.destroyed ? resolve() : reject(brokenOff(error, call))),
    });
  });
}

function brokenOff(cause: unknown, call: PassedResponse['call']): AppError {
  return new AppError('upstream_error', { logDetail: 'the response of the platform broke off', call: call?.(), cause });
}

/** A bug, or storage that is down, is logged although the caller has gone. */
const isOurs = (error: unknown) =>
  !(error instanceof AppError) || error.code === 'internal' || error.code === 'storage_unavailable';
