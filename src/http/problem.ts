/** Turns errors into problem documents and log lines. */
import { randomUUID } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import { AppError } from '../errors.ts';
import type { Events } from '../observability/events.ts';
import { PROBLEM_TYPE, problemDocument } from './problem-document.ts';

export const notFound: RequestHandler = (_req, _res, next) => {
  next(new AppError('not_found', { detail: 'Check the address: there is nothing here.' }));
};

export function methodNotAllowed(methods: readonly string[]): RequestHandler {
  const allow = methods.join(', ');
  return (_req, _res, next) => {
    next(new AppError('method_not_allowed', { detail: `Allowed here: ${allow}.`, headers: { Allow: allow } }));
  };
}

export function sendDocument(publicHref: string, req: Request, res: Response, error: AppError): void {
  const { code, status, detail, connectUrl, faults: errors } = error;
  const id = UUID.test(req.context.id) ? req.context.id : randomUUID();
  res.type(PROBLEM_TYPE).send(problemDocument(publicHref, { code, status, id, detail, connectUrl, errors }));
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Logs a failure. Also for routes that show one as part of a page: the page shows the reference of this log line. */
export function report(events: Events, req: Request, error: AppError): void {
  const { id: requestId, route } = req.context;
  events.requestFailed({
    requestId,
    route,
    method: req.method,
    code: error.code,
    status: error.status,
    detail: error.logDetail,
    ...error.call,
    cause: error.cause,
  });
}

/** Keeps only the status of errors from Express and its body parsers: their messages repeat input. */
export function asAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  if (isOutOfDescriptors(thrown)) return new AppError('overloaded', { retryAfterSeconds: 2, cause: thrown });
  const status = thrown instanceof Error && 'status' in thrown ? thrown.status : undefined;
  if (status === 413) return new AppError('too_large', { detail: 'Send less at once.' });
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new AppError('invalid_request', { detail: 'The address or the body of the request cannot be read.' });
  }
  return new AppError('internal', { cause: thrown });
}

/**
 * The process (EMFILE) or the system (ENFILE) has no file descriptor left: temporary, and not the request's fault (F21).
 * While a package is loaded, Node reports a package.json that it cannot open as an invalid one.
 */
const OUT_OF_DESCRIPTORS = new Set<unknown>(['EMFILE', 'ENFILE', 'ERR_INVALID_PACKAGE_CONFIG']);

function isOutOfDescriptors(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && OUT_OF_DESCRIPTORS.has(thrown.code);
}
