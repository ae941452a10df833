/** Owns the handing on of another server's answer: it goes to the caller as it comes, and ends when the caller leaves. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '../errors.ts';
import { createStop, type StopSwitch } from '../outbound/stop.ts';
import type { StreamedBody } from '../outbound/streamed-answer.ts';
import { sendHead } from './answer-head.ts';

export interface PassedAnswer {
  status: number;
  headers: Record<string, string>;
  body: StreamedBody;
}

/** So small a body leaves in one piece with its head, which costs one plain call of the system instead of a gathered one. */
const ONE_PIECE_BYTES = 16_384;

/**
 * Resolves once the answer is whole or the caller has gone. Where the body breaks off the answer is left unfinished, so that
 * whoever handles the error can report it and cut the connection.
 * @param open begins the call; it is stopped when the caller leaves
 * @throws AppError `upstream_error` where the body breaks off, and whatever `open` throws
 */
export async function passAnswer(
  req: IncomingMessage,
  res: ServerResponse,
  open: (stop: StopSwitch) => Promise<PassedAnswer>,
): Promise<void> {
  const stop = createStop();
  // Only for a caller who left: an answer that is complete closes as well.
  res.on('close', () => {
    if (!res.writableFinished) stop.stop();
  });
  // Closed before anybody listened.
  if (res.destroyed) return;
  const answer = await open(stop);
  if (stop.stopped) return;
  const whole = wholeOf(answer);
  if (!whole) return passOn(answer, req, res);
  sendHead(req, res, answer.status, answer.headers);
  if (whole.length > ONE_PIECE_BYTES) res.end(whole);
  // Each byte is one character: what leaves is what came.
  else res.end(whole.toString('latin1'), 'latin1');
}

function wholeOf({ body }: PassedAnswer): Buffer | undefined {
  try {
    return body.whole();
  } catch (error) {
    throw brokenOff(error);
  }
}

function passOn({ status, headers, body }: PassedAnswer, req: IncomingMessage, res: ServerResponse): Promise<void> {
  return new Promise((resolve, reject) => {
    // Not before there is something to send: until then a failure can still be told.
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
      fail: (error) => reject(brokenOff(error)),
    });
  });
}

function brokenOff(cause: unknown): AppError {
  return new AppError('upstream_error', { logDetail: 'the answer of the platform broke off', cause });
}
