/** SQLite's result codes: which of them are worth a retry, and which mean that the store is unavailable. */
import { unavailable } from '../unavailable.ts';

/** Primary result codes (https://sqlite.org/rescode.html); the high bits of an extended code only refine them. */
const BUSY = 5;
const LOCKED = 6;
const CORRUPT = 11;
const NOTADB = 26;
const PRIMARY_MASK = 0xff;

/** Seconds until a retry makes sense. Codes that are not listed are mistakes in our own statements. */
const RETRY_AFTER_SECONDS: Readonly<Record<number, number>> = {
  3: 30, // PERM
  [BUSY]: 1,
  [LOCKED]: 1,
  7: 5, // NOMEM
  8: 30, // READONLY
  9: 1, // INTERRUPT
  10: 5, // IOERR
  [CORRUPT]: 60,
  13: 30, // FULL
  14: 30, // CANTOPEN
  15: 5, // PROTOCOL
  [NOTADB]: 60,
};

export function isBusy(error: unknown): boolean {
  const code = primaryCode(error);
  return code === BUSY || code === LOCKED;
}

export function isDamage(error: unknown): boolean {
  const code = primaryCode(error);
  return code === CORRUPT || code === NOTADB;
}

/** True if the store is at fault, and not the statement or its parameters. */
export function isStorageFault(error: unknown): boolean {
  const code = primaryCode(error);
  return code !== undefined && RETRY_AFTER_SECONDS[code] !== undefined;
}

/** The error to throw: `storage_unavailable` if the store is at fault, otherwise the error itself. */
export function toStoreError(error: unknown): unknown {
  const retryAfterSeconds = RETRY_AFTER_SECONDS[primaryCode(error) ?? -1];
  if (retryAfterSeconds === undefined) return error;
  return unavailable(`SQLite returned result code ${resultCode(error)}`, { cause: error, retryAfterSeconds });
}

function primaryCode(error: unknown): number | undefined {
  const code = resultCode(error);
  return code === undefined ? undefined : code & PRIMARY_MASK;
}

function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error)) return undefined;
  return typeof error.errcode === 'number' ? error.errcode : undefined;
}
