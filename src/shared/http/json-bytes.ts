/** Reads JSON bodies as bytes, to pass them on unchanged, within a limit for the memory of the process. */
import express, { type Request, type Response } from 'express';
import { AppError } from '../errors.ts';

const MIB = 1024 * 1024;
const MAX_BYTES = MIB;
/** Of all bodies whose work has not ended. */
const MAX_MEMORY_BYTES = 64 * MIB;
/** One caller leaves the rest to others (R137). */
const MAX_CALLER_BYTES = 16 * MIB;
const BUSY_SECONDS = 2;

export interface JsonBytes {
  /**
   * Reads the body for this work, which gets undefined if there is none. Its memory is released once the work ends.
   * @param caller whose share of the memory is used
   * @throws AppError `unsupported_media_type`, `too_large`, `overloaded`
   */
  use<T>(req: Request, res: Response, caller: string, work: (body: Buffer | undefined) => Promise<T>): Promise<T>;
}

const readRaw = express.raw({ limit: MAX_BYTES, type: () => true, inflate: false });

export function createJsonBytes(maxMemoryBytes = MAX_MEMORY_BYTES): JsonBytes {
  const usedBytes = new Map<string, number>();
  let usedInAll = 0;

  /** Adds to what the caller uses. @param bytes negative to release them */
  const charge = (caller: string, bytes: number): void => {
    const usedByCaller = (usedBytes.get(caller) ?? 0) + bytes;
    usedInAll += bytes;
    if (usedByCaller > 0) usedBytes.set(caller, usedByCaller);
    else usedBytes.delete(caller);
  };

  return {
    async use(req, res, caller, work) {
      const length = bodyLength(req);
      if (length === 0) return work(undefined);
      assertJson(req);
      if (length > MAX_BYTES) throw new AppError('too_large', { detail: 'Send a body of at most 1 MiB.' });
      const isOverMemory = usedInAll + length > maxMemoryBytes;
      if (isOverMemory || (usedBytes.get(caller) ?? 0) + length > MAX_CALLER_BYTES) {
        throw new AppError('overloaded', { logDetail: 'bodies in memory', retryAfterSeconds: BUSY_SECONDS });
      }
      charge(caller, length);
      try {
        return await work(await readBytes(req, res));
      } finally {
        charge(caller, -length);
      }
    },
  };
}

/** Returns the stated length of the body, in bytes: a body without one is refused before. */
export function bodyLength({ headers }: Pick<Request, 'headers'>): number {
  return Number(headers['content-length'] ?? 0);
}

/** JSON, and media types that are JSON, such as `application/merge-patch+json` (RFC 6839 section 3.1). */
const JSON_TYPE = /^application\/(?:[\w!#$&^.+-]+\+)?json[ \t]*(?:;|$)/i;

function assertJson({ headers }: Request): void {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  if (!JSON_TYPE.test(type)) {
    throw unsupported(
      'Send the body as JSON, with "Content-Type: application/json", or a type that ends with "+json".',
    );
  }
  if (encoding.toLowerCase() !== 'identity') throw unsupported('Send the body without a Content-Encoding.');
}

const unsupported = (detail: string) => new AppError('unsupported_media_type', { detail });

function readBytes(req: Request, res: Response): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    readRaw(req, res, (error?: unknown) => (error ? reject(error) : resolve(req.body as Buffer)));
  });
}
