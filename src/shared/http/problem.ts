/** Converts errors into problem documents and log lines. */
import type { Request, RequestHandler, Response } from 'express';
import { AppError } from '../errors.ts';
import type { Events } from '../observability/events.ts';
import { instanceOf, PROBLEM_TYPE, problemDocument } from './problem-document.ts';
import type { OnRefused } from './refusal.ts';

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
  const { id } = req.context;
  res.type(PROBLEM_TYPE).send(problemDocument(publicHref, { code, status, id, detail, connectUrl, errors }));
}

/** Logs a failure. Routes that show a failure within a page call it too: the page shows the reference of this line. */
export function report(events: Events, req: Request, error: AppError): void {
  const { id: requestId, route, platformRoute } = req.context;
  const instance = instanceOf(requestId);
  events.requestFailed({
    requestId,
    // Both are logged, so that a search for either finds the line.
    ...(instance !== `urn:uuid:${requestId}` && { instance }),
    route,
    ...(platformRoute !== undefined && { platformRoute }),
    method: req.method,
    code: error.code,
    status: error.status,
    detail: error.logDetail,
    ...error.call,
    cause: error.cause,
  });
}

/** Returns a function that logs and counts requests that are refused before they reach the app. */
export const refusalReporter =
  (events: Pick<Events, 'requestFailed'>): OnRefused =>
  (code, { id: requestId, status, method }) =>
    events.requestFailed({ requestId, route: 'none', method, code, status });

/**
 * Converts an error. Of errors from Express and its body parsers it keeps only the status, since their messages repeat
 * input.
 */
export function asAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  if (isOutOfDescriptors(thrown)) return new AppError('overloaded', { retryAfterSeconds: 2, cause: thrown });
  const status = thrown instanceof Error && 'status' in thrown ? thrown.status : undefined;
  if (status === 413) return new AppError('too_large', { detail: 'Send less at once.' });
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new AppError('invalid_request', { detail: 'The URL or the body of the request cannot be read.' });
  }
  return new AppError('internal', { cause: thrown });
}

/**
 * The codes for a process (EMFILE) or a system (ENFILE) without free file descriptors, which is temporary and not the
 * request's fault (F21). While loading a package, Node reports a package.json that it cannot open as invalid.
 */
const OUT_OF_DESCRIPTORS = new Set<unknown>(['EMFILE', 'ENFILE', 'ERR_INVALID_PACKAGE_CONFIG']);

function isOutOfDescriptors(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && OUT_OF_DESCRIPTORS.has(thrown.code);
}
