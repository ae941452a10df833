/** Errors of Redis: distinguishes faults of the store from mistakes in our own commands. */
import { AppError, codeOf } from '../../errors.ts';
import { unavailable } from '../unavailable.ts';
import { deniedWords, isDenied } from './permissions.ts';

/** Mistakes in our own commands, by the first word of the reply. All others are faults of the store. */
const MISTAKES = new Set(['ERR', 'WRONGTYPE', 'CROSSSLOT']);
const TOO_MANY_CLIENTS = 'ERR max number of clients reached';

/** Seconds until a retry makes sense, for faults that an operator must fix. */
const RETRY_AFTER_SECONDS: Readonly<Record<string, number>> = {
  OOM: 30,
  MISCONF: 30,
  NOAUTH: 60,
  WRONGPASS: 60,
};

/** Returns the error to throw: `storage_unavailable` if the store is at fault, otherwise the error itself. */
export function toStoreError(error: unknown): unknown {
  if (error instanceof AppError || error instanceof TypeError) return error;
  withoutCommand(error);
  if (isDenied(error))
    return unavailable(`Redis responded NOPERM: its user lacks ${deniedWords(error)}`, {
      cause: error,
      retryAfterSeconds: 60,
    });
  const code = replyCode(error);
  if (code !== undefined && MISTAKES.has(code)) return error;
  return unavailable(code === undefined ? 'Redis did not respond' : `Redis responded ${code}`, {
    cause: error,
    retryAfterSeconds: RETRY_AFTER_SECONDS[code ?? ''] ?? 1,
  });
}

/**
 * Returns true if Redis refuses a command with several keys, because it checks slots as a cluster does, or because its
 * ACL forbids `MGET`.
 */
export function refusesSeveralKeys(error: unknown): boolean {
  const code = replyCode(error instanceof AppError ? error.cause : error);
  return code === 'CROSSSLOT' || code === 'NOPERM';
}

/**
 * Returns the code of a system, TLS or Redis error, such as `ECONNREFUSED` or `NOAUTH`. The code never contains text of
 * the error.
 */
export function causeCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  // A cluster client reports the cause as the error of its last node.
  if (isClusterError(error)) return causeCode(error.lastNodeError);
  return codeOf(error) ?? replyCode(error);
}

/** Returns true for the error of a cluster client that reached no node. */
export function isClusterError(error: unknown): error is Error & { lastNodeError: unknown } {
  return error instanceof Error && 'lastNodeError' in error;
}

function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== 'ReplyError' || error.message.startsWith(TOO_MANY_CLIENTS)) {
    return undefined;
  }
  return error.message.split(' ', 1)[0];
}

/** Removes the command and its arguments, which ioredis adds to the error, so that no values are logged. */
function withoutCommand(error: unknown): void {
  if (error instanceof Error && 'command' in error) delete error.command;
}
