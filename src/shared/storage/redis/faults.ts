/** Errors of Redis: which of them mean that the store is unavailable, and which are our own mistakes. */
import { AppError, codeOf } from '../../errors.ts';
import { unavailable } from '../unavailable.ts';

/** Mistakes in our own commands, by the first word of the reply. All others are faults of the store. */
const MISTAKES = new Set(['ERR', 'WRONGTYPE', 'CROSSSLOT']);
const TOO_MANY_CLIENTS = 'ERR max number of clients reached';

/** Seconds until a retry makes sense, for faults that an operator has to mend. */
const RETRY_AFTER_SECONDS: Readonly<Record<string, number>> = {
  OOM: 30,
  MISCONF: 30,
  NOAUTH: 60,
  WRONGPASS: 60,
  NOPERM: 60,
};

/** The error to throw: `storage_unavailable` if the store is at fault, otherwise the error itself. */
export function toStoreError(error: unknown): unknown {
  if (error instanceof AppError || error instanceof TypeError) return error;
  const code = replyCode(withoutCommand(error));
  if (code !== undefined && MISTAKES.has(code)) return error;
  return unavailable(code === undefined ? 'Redis did not respond' : `Redis responded ${code}`, {
    cause: error,
    retryAfterSeconds: RETRY_AFTER_SECONDS[code ?? ''] ?? 1,
  });
}

/** True if Redis refuses a command with several keys: it uses slots as a cluster does, or its ACL forbids `MGET`. */
export function refusesSeveralKeys(error: unknown): boolean {
  const code = replyCode(error instanceof AppError ? error.cause : error);
  return code === 'CROSSSLOT' || code === 'NOPERM';
}

/** A code of the system, of TLS or of Redis, such as `ECONNREFUSED` or `NOAUTH`, without any text of the error. */
export function causeCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  // A cluster client gives the cause in the error of its last node.
  if (isOfWholeCluster(error)) return causeCode(error.lastNodeError);
  return codeOf(error) ?? replyCode(error);
}

/** True for the error of a cluster client that reached no node. */
export function isOfWholeCluster(error: unknown): error is Error & { lastNodeError: unknown } {
  return error instanceof Error && 'lastNodeError' in error;
}

function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== 'ReplyError' || error.message.startsWith(TOO_MANY_CLIENTS)) {
    return undefined;
  }
  return error.message.split(' ', 1)[0];
}

/** ioredis adds the command and its arguments to the error, so the values would get into the log. */
function withoutCommand(error: unknown): unknown {
  if (error instanceof Error && 'command' in error) delete error.command;
  return error;
}
