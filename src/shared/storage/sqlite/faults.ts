/** Classifies SQLite's result codes: which mean that the store is unavailable, and when to retry. */
import { unavailable } from '../unavailable.ts';

/** Primary result codes (https://sqlite.org/rescode.html); the high bits of an extended code only refine them. */
const BUSY = 5;
const LOCKED = 6;
const IOERR = 10;
const CORRUPT = 11;
const NOTADB = 26;
const PRIMARY_MASK = 0xff;

/**
 * The codes of faults of the store; all others are mistakes in our own statements. `retry`: seconds until a retry makes
 * sense.
 */
const STORAGE_FAULTS: Readonly<Record<number, { name: string; retry: number; isDisk?: true }>> = {
  3: { name: 'PERM', retry: 30, isDisk: true },
  [BUSY]: { name: 'BUSY', retry: 1 },
  [LOCKED]: { name: 'LOCKED', retry: 1 },
  7: { name: 'NOMEM', retry: 5 },
  8: { name: 'READONLY', retry: 30, isDisk: true },
  9: { name: 'INTERRUPT', retry: 1 },
  [IOERR]: { name: 'IOERR', retry: 5, isDisk: true },
  [CORRUPT]: { name: 'CORRUPT', retry: 60 },
  13: { name: 'FULL', retry: 30, isDisk: true },
  14: { name: 'CANTOPEN', retry: 30, isDisk: true },
  15: { name: 'PROTOCOL', retry: 5 },
  [NOTADB]: { name: 'NOTADB', retry: 60 },
};

/** A flush of the log that failed or takes too long. */
export class FlushFault extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'FlushFault';
  }
}

export function isBusy(error: unknown): boolean {
  const code = primaryCode(error);
  return code === BUSY || code === LOCKED;
}

/** Returns true if the device failed, so that unflushed data may be lost. */
export function isDeviceFault(error: unknown): boolean {
  return primaryCode(error) === IOERR;
}

/** Returns true if the file is not an SQLite database. */
export function isForeign(error: unknown): boolean {
  return primaryCode(error) === NOTADB;
}

export function isDamage(error: unknown): boolean {
  const code = primaryCode(error);
  return code === CORRUPT || code === NOTADB;
}

/** Returns true if the store is at fault, not the statement or its parameters. */
export function isStorageFault(error: unknown): boolean {
  return storageFault(error) !== undefined;
}

/** Returns true for a fault of the file system: it is full or read-only, or the device fails or is too slow. */
export function isDiskFault(error: unknown): boolean {
  return error instanceof FlushFault || storageFault(error)?.isDisk === true;
}

/** Returns the error to throw: `storage_unavailable` if the store is at fault, otherwise the error itself. */
export function toStoreError(error: unknown): unknown {
  const fault = storageFault(error);
  if (fault === undefined) return error;
  const logDetail = `SQLite returned ${fault.name} (result code ${resultCode(error)})`;
  return unavailable(logDetail, { cause: error, retryAfterSeconds: fault.retry });
}

function storageFault(error: unknown) {
  return STORAGE_FAULTS[primaryCode(error) ?? -1];
}

function primaryCode(error: unknown): number | undefined {
  const code = resultCode(error);
  return code === undefined ? undefined : code & PRIMARY_MASK;
}

function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error)) return undefined;
  return typeof error.errcode === 'number' ? error.errcode : undefined;
}
