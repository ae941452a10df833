/** Owns the log: JSON lines on standard output, without secrets, and with card numbers taken out of every line. */
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';

export interface LoggerParts {
  level: string;
  /** Takes card numbers out of a line; works on the finished line, so that no field is forgotten. */
  scrub: (line: string) => string;
  destination: DestinationStream;
}

export function createLogger({ level, scrub, destination }: LoggerParts): Logger {
  return pino(
    {
      level,
      base: null,
      // Milliseconds since the epoch have as many digits as a card number.
      timestamp: stdTimeFunctions.isoTime,
      serializers: { err: describeError },
    },
    { write: (line) => destination.write(scrub(line)) },
  );
}

/**
 * Names, codes and our own frames only: messages of foreign errors may repeat what was sent or received.
 * The chain of causes is kept, to a depth of five.
 */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return { type: typeof error };
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const reason = 'reason' in error && typeof error.reason === 'string' ? { reason: error.reason } : {};
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  const cause = error.cause === undefined || depth >= 5 ? {} : { cause: describeError(error.cause, depth + 1) };
  return { type: error.name, ...code, ...reason, at: frames.slice(0, 6).map((line) => line.trim().slice(3)), ...cause };
}
