/** Owns the bounds of a body that is handed on: how many bytes, and how long until its end. */
import type { StreamedBody } from './streamed-answer.ts';

export interface BodyLimits {
  /** Until the end of the body, counted from when it is taken. */
  totalMilliseconds: number;
  maxBytes: number;
}

/** The same body; one that is too large or takes too long fails, and its connection ends. */
export function boundedBody(body: StreamedBody, limits: BodyLimits): StreamedBody {
  return {
    ...body,
    whole() {
      const all = body.whole();
      if (all && all.length > limits.maxBytes) throw new Error(TOO_LARGE);
      return all;
    },
    take(taker) {
      let bytes = 0;
      const timer = setTimeout(() => body.destroy(new Error(TOO_LONG)), limits.totalMilliseconds);
      body.take({
        write(chunk) {
          bytes += chunk.length;
          if (bytes <= limits.maxBytes) return taker.write(chunk);
          body.destroy(new Error(TOO_LARGE));
          return false;
        },
        end() {
          clearTimeout(timer);
          // Of what had come whole already, no more than the error is left to tell.
          if (bytes > limits.maxBytes) taker.fail(new Error(TOO_LARGE));
          else taker.end();
        },
        fail(error) {
          clearTimeout(timer);
          taker.fail(error);
        },
      });
    },
  };
}

const TOO_LARGE = 'The answer of the platform is too large.';
const TOO_LONG = 'The platform took too long to send its answer.';
