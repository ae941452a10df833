/** Owns the reading of request bodies: known length, small, and of the kind that the route takes. */
import type { IncomingMessage } from 'node:http';
import express, { type RequestHandler } from 'express';
import iconv from 'iconv-lite';
import { AppError } from '../errors.ts';

const LIMIT_BYTES = 64 * 1024;

// Express's parsers load their character sets with the first body, which takes file descriptors: there may be none left then (F21).
iconv.encodingExists('utf-8');

/** Refuses chunked bodies (411): a length that is told beforehand cannot be argued about between servers (R78). */
export const knownLength: RequestHandler = (req, _res, next) => {
  const chunked = req.headers['transfer-encoding'] !== undefined;
  if (!chunked) return next();
  const headers = { Connection: 'close' };
  return next(new AppError('length_required', { detail: 'Send the body with a Content-Length.', headers }));
};

/** Reads a form or a JSON body into `req.body`; `req.body` is an empty object where neither came. */
export const readBody: RequestHandler[] = bodyReaders({ parameterLimit: 50 });

/** The same for the long forms of administrators. */
export const readLongBody: RequestHandler[] = bodyReaders({ parameterLimit: 300 });

function bodyReaders({ parameterLimit }: { parameterLimit: number }): RequestHandler[] {
  return [
    express.json({ limit: LIMIT_BYTES, strict: true, inflate: false }),
    express.urlencoded({ limit: LIMIT_BYTES, extended: false, parameterLimit, inflate: false }),
    (req, _res, next) => {
      req.body ??= {};
      next();
    },
  ];
}

/** One field of a form, or undefined where it is missing, doubled or no text. */
export function formField(body: unknown, name: string): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const value = (body as Record<string, unknown>)[name];
  return typeof value === 'string' ? value : undefined;
}

/** Every value of a field that a form may hold more than once. */
export function formFields(body: unknown, name: string): string[] {
  if (typeof body !== 'object' || body === null) return [];
  const value = (body as Record<string, unknown>)[name];
  return (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string');
}

/** One query parameter, or undefined where it is missing. @throws AppError where it is doubled */
export function queryField(req: IncomingMessage, name: string): string | undefined {
  const url = req.url ?? '';
  const start = url.indexOf('?');
  if (start < 0) return undefined;
  const [value, second] = new URLSearchParams(url.slice(start)).getAll(name);
  if (second === undefined) return value;
  throw new AppError('invalid_request', { detail: `Give "${name}" once.` });
}
