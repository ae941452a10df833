/** Uploads: reads the fields of a form (multipart/form-data, RFC 7578), and streams the file after them. */
import type { IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import type { Readable } from 'node:stream';
import type { RequestHandler } from 'express';
import { AppError } from '../errors.ts';

export interface UploadedFile {
  /** The file name that the browser sent. */
  name: string;
  bytes: Readable;
}

declare module './request-context.ts' {
  interface RequestContext {
    /** The unread file of a form whose fields `readUpload` has read. */
    upload?: UploadedFile | undefined;
  }
}

const require = createRequire(import.meta.url);
const MAX_FIELDS = 20;
const MAX_FIELD_BYTES = 4 * 1024;
const MAX_HEADERS_PER_PART = 10;

/**
 * Reads the fields before the file into `req.body`, so that the CSRF token is checked before the file is read. The file
 * must come last. Forms of other types are left to the handler.
 */
export function readUpload(maxBytes: number): RequestHandler {
  return (req, res, next) => {
    req.body ??= {};
    if (!req.is('multipart/form-data')) return next();
    // The parser is loaded when the first upload arrives.
    const { Busboy }: typeof import('@fastify/busboy') = require('@fastify/busboy');
    try {
      assertUploadSize(req, maxBytes);
      const parser = new Busboy({
        headers: { ...req.headers, 'content-type': req.headers['content-type'] ?? '' },
        limits: {
          fields: MAX_FIELDS,
          fieldSize: MAX_FIELD_BYTES,
          files: 1,
          parts: MAX_FIELDS + 1,
          headerPairs: MAX_HEADERS_PER_PART,
        },
      });
      let isSettled = false;
      const settle = (error?: AppError) => {
        if (!isSettled) next(error);
        isSettled = true;
      };
      parser.on('field', (name, value) => {
        if (!Object.hasOwn(req.body, name)) req.body[name] = value;
      });
      parser.on('file', (_field, bytes, name) => {
        req.context.upload = { name, bytes };
        // An error before the first read must not end the process; the reader also gets it.
        bytes.on('error', () => undefined);
        req.once('close', () => !req.complete && bytes.destroy(new Error('The upload was aborted.')));
        settle();
      });
      parser.on('finish', () => settle());
      parser.on('error', () => {
        req.context.upload?.bytes.destroy(malformedForm());
        settle(malformedForm());
      });
      // After a refusal, drain the rest: a browser reads the response only once it has sent everything.
      res.once('finish', () => req.unpipe(parser).resume());
      req.pipe(parser);
    } catch (error) {
      next(error instanceof AppError ? error : malformedForm());
    }
  };
}

/** Checks the Content-Length, which every request with a body has. @throws AppError `too_large` */
export function assertUploadSize(req: IncomingMessage, maxBytes: number): void {
  if (Number(req.headers['content-length'] ?? 0) <= maxBytes) return;
  const detail = `The file may have at most ${Math.floor(maxBytes / 2 ** 20)} MB.`;
  throw new AppError('too_large', { detail, headers: { Connection: 'close' } });
}

const malformedForm = () => new AppError('invalid_request', { detail: 'The form could not be read: send it again.' });
