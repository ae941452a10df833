/** The log: JSON lines without secrets and without card numbers. */
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { framesOf } from '../errors.ts';
import { scrubCardNumbers } from './card-numbers.ts';

/** `dropped` returns the number of lines that could not be written. */
export type LogDestination = DestinationStream & { dropped?(): number };

/** @param parts `context`: fields of every line, which the line's own fields override */
export function createLogger(parts: {
  level: string;
  destination: LogDestination;
  context?: (() => object) | undefined;
}): Logger {
  const { level, destination, context } = parts;
  return pino(
    {
      level,
      ...(context && { mixin: context }),
      base: null,
      // Milliseconds since the epoch have as many digits as a card number.
      timestamp: stdTimeFunctions.isoTime,
      serializers: { err: describeError },
    },
    // Scrub the finished line, because any field may contain a card number.
    { write: (line) => destination.write(scrubCardNumbers(line)) },
  );
}

/**
 * Describes an error and up to five causes by name, code and stack frames, without messages, because libraries may
 * repeat sent or received data in them.
 */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return { type: typeof error };
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const reason = 'reason' in error && typeof error.reason === 'string' ? { reason: error.reason } : {};
  const at = framesOf(error)
    .slice(0, 6)
    .map((line) => line.slice(3));
  const cause = error.cause === undefined || depth >= 5 ? {} : { cause: describeError(error.cause, depth + 1) };
  return { type: error.name, ...code, ...reason, at, ...cause };
}
