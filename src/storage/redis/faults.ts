/** Errors of Redis: which of them mean that the store is unavailable, and which are mistakes of ours. */

import { AppError } from '../../errors.ts';

/** Mistakes in our own commands, by the first word of the reply. Everything else is the store's fault. */
const MISTAKES = new Set(['ERR', 'WRONGTYPE', 'CROSSSLOT']);
const TOO_MANY_CLIENTS = 'ERR max number of clients reached';

/** Seconds after which trying again makes sense, where an operator has to act first. */
const RETRY_AFTER_SECONDS: Readonly<Record<string, number>> = {
  OOM: 30,
  MISCONF: 30,
  NOAUTH: 60,
  WRONGPASS: 60,
  NOPERM: 60,
};

/** The error to reject with: `storage_unavailable` where the store is at fault, otherwise the error as it was. */
export function toStoreError(error: unknown): unknown {
  if (error instanceof AppError || error instanceof TypeError) return error;
  const code = replyCode(withoutCommand(error));
  if (code !== undefined && MISTAKES.has(code)) return error;
  return unavailable(code === undefined ? 'Redis did not answer' : `Redis answered ${code}`, {
    cause: error,
    retryAfterSeconds: RETRY_AFTER_SECONDS[code ?? ''] ?? 1,
  });
}

/** True where Redis takes no command on several keys: it counts slots as a cluster does, or its ACL forbids `MGET`. */
export function refusesSeveralKeys(error: unknown): boolean {
  const code = replyCode(error instanceof AppError ? error.cause : error);
  return code === 'CROSSSLOT' || code === 'NOPERM';
}

/** After a write this says nothing about whether it was done. */
export function unavailable(
  logDetail: string,
  options: { cause?: unknown; retryAfterSeconds?: number } = {},
): AppError {
  return new AppError('storage_unavailable', { logDetail, retryAfterSeconds: 1, ...options });
}

export function storeClosed(): AppError {
  return unavailable('The store was closed');
}

function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== 'ReplyError' || error.message.startsWith(TOO_MANY_CLIENTS)) {
    return undefined;
  }
  return error.message.split(' ', 1)[0];
}

/** ioredis hangs the command with all that it would have stored on the error, from where it would get into a log. */
function withoutCommand(error: unknown): unknown {
  if (error instanceof Error && 'command' in error) delete error.command;
  return error;
}
