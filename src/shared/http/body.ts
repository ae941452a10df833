/** Reads request bodies and single fields of forms and queries, within limits. */
import type { IncomingMessage } from 'node:http';
import express, { type RequestHandler } from 'express';
import iconv from 'iconv-lite';
import { AppError } from '../errors.ts';
import { isObject } from '../json.ts';

const LIMIT_BYTES = 64 * 1024;
const LONG_LIMIT_BYTES = 512 * 1024;

// Loads the character sets of the body parsers now: when the first body arrives, no file descriptor may be free (F21).
iconv.encodingExists('utf-8');

/** Refuses chunked bodies (411): with a Content-Length, every proxy on the way agrees where the body ends (R78). */
export const requireContentLength: RequestHandler = (req, _res, next) => {
  const isChunked = req.headers['transfer-encoding'] !== undefined;
  if (!isChunked) return next();
  const headers = { Connection: 'close' };
  return next(new AppError('length_required', { detail: 'Send the body with a Content-Length.', headers }));
};

/** Reads a form or JSON into `req.body`, which is an empty object if there is no body. */
export const readBody: RequestHandler[] = bodyReaders({ limit: LIMIT_BYTES, parameterLimit: 50 });

/** Like `readBody`, for the long forms of the admin pages, such as one with the addresses of 1,000 users. */
export const readLongBody: RequestHandler[] = bodyReaders({ limit: LONG_LIMIT_BYTES, parameterLimit: 300 });

function bodyReaders({ limit, parameterLimit }: { limit: number; parameterLimit: number }): RequestHandler[] {
  return [
    express.json({ limit, strict: true, inflate: false }),
    express.urlencoded({ limit, extended: false, parameterLimit, inflate: false }),
    (req, _res, next) => {
      req.body ??= {};
      next();
    },
  ];
}

/** Returns one field of a form; undefined if it is missing, repeated or not a string. */
export function formField(body: unknown, name: string): string | undefined {
  const value = isObject(body) ? body[name] : undefined;
  return typeof value === 'string' ? value : undefined;
}

/** Returns all values of a field that a form may repeat. */
export function formFields(body: unknown, name: string): string[] {
  const value = isObject(body) ? body[name] : undefined;
  return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === 'string');
}

/** Returns one query parameter; undefined if it is missing. @throws AppError `invalid_request` if it is repeated */
export function queryField(req: IncomingMessage, name: string): string | undefined {
  const [value, secondValue] = queryFields(req, name);
  if (secondValue === undefined) return value;
  throw new AppError('invalid_request', { detail: `Send "${name}" once.` });
}

/** Returns all values of a query parameter that a URL may repeat. */
export function queryFields(req: IncomingMessage, name: string): string[] {
  const url = req.url ?? '';
  const start = url.indexOf('?');
  return start < 0 ? [] : new URLSearchParams(url.slice(start)).getAll(name);
}
