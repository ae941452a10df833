/** Owns the answer to everything that fails: a problem document (RFC 9457), or a page for a browser that asks for one. */
import { randomUUID } from 'node:crypto';
import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express';
import { AppError, PROBLEMS } from '../errors.ts';
import type { Events } from '../observability/events.ts';
import type { Pages } from './pages.ts';
import { problemText } from './problem-texts.ts';
import { wantsPage } from './viewer.ts';

export interface ProblemParts {
  pages: Pages;
  events: Events;
  publicHref: string;
  basePath: string;
  clock: () => number;
}

/** Turns whatever was thrown into an answer; what is not an AppError becomes one opaque 500. */
export function problemHandler(parts: ProblemParts): ErrorRequestHandler {
  // Express knows an error handler by its four parameters.
  return (thrown: unknown, req, res, _next) => {
    // The caller has hung up: there is nobody to tell, and nothing has failed.
    if (res.destroyed) return;
    const error = asAppError(thrown);
    report(parts.events, req, error);
    // The status has left: all that can still be told is that the answer is not whole.
    if (res.headersSent) {
      res.destroy();
      return;
    }
    for (const name of LEFT_BY_ROUTES) res.removeHeader(name);
    if (RELAYED.has(req.context.route)) res.set('Proxy-Status', `gatehouse; error=${ownRefusal(error)}`);
    res.set(error.headers).status(error.status);
    if (error.retryAfterSeconds !== undefined) res.set('Retry-After', String(error.retryAfterSeconds));
    return wantsPage(req) ? sendPage(parts, req, res, error) : sendDocument(parts, req, res, error);
  };
}

/** Where a caller has to be able to tell our refusal from the platform's (RFC 9209). */
const RELAYED: ReadonlySet<string> = new Set([
  ...['/threads/current', '/bin/:bin', '/bin'],
  ...['/relay/threads/current', '/relay/bin/:bin', '/relay/bin'],
]);

function ownRefusal(error: AppError): string {
  return error.status < 500 ? 'http_request_denied' : 'proxy_internal_error';
}

/** Headers of the answer that failed, which would be wrong on this one. */
const LEFT_BY_ROUTES = ['Content-Length', 'Content-Encoding', 'Content-Language', 'ETag', 'Last-Modified'];

/** Everything that no route took. */
export const notFound: RequestHandler = (_req, _res, next) => {
  next(new AppError('not_found', { detail: 'Check the address: there is nothing here.' }));
};

export function methodNotAllowed(methods: readonly string[]): RequestHandler {
  const allow = methods.join(', ');
  return (_req, _res, next) => {
    next(new AppError('method_not_allowed', { detail: `Allowed here: ${allow}.`, headers: { Allow: allow } }));
  };
}

function sendDocument(parts: ProblemParts, req: Request, res: Response, error: AppError): void {
  res.type('application/problem+json').send(
    JSON.stringify({
      type: `${parts.publicHref}/problems/${error.code}`,
      title: PROBLEMS[error.code].title,
      status: error.status,
      // What is undefined does not become JSON.
      detail: error.detail,
      instance: `urn:uuid:${UUID.test(req.context.id) ? req.context.id : randomUUID()}`,
      code: error.code,
      connectUrl: error.connectUrl,
      errors: error.faults,
    }),
  );
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function sendPage(parts: ProblemParts, req: Request, res: Response, error: AppError): void {
  const connectStep = error.connectUrl
    ? { label: CONNECT_LABELS[error.code] ?? 'Go on', url: error.connectUrl }
    : undefined;
  const { csrfToken, ...frame } = parts.pages.frame(req, problemText(error.code).title);
  // Forms of a page without a referrer are sent with `Origin: null`, which the CSRF check refuses: better none at all.
  const sendsOrigin = res.get('Referrer-Policy') !== 'no-referrer';
  parts.pages.send(res, 'error', {
    page: sendsOrigin ? { ...frame, csrfToken } : frame,
    ...error.words,
    code: error.code,
    reference: req.context.reference,
    time: new Date(parts.clock()).toISOString(),
    cause: FOR_PROGRAMS.has(error.code) ? undefined : error.detail,
    whose: error.whose,
    step: error.step ?? connectStep,
    retryAfterSeconds: error.retryAfterSeconds,
  });
}

/** Their details speak to programs; people get the code's own words. */
const FOR_PROGRAMS: ReadonlySet<AppError['code']> = new Set(['method_not_allowed', 'length_required']);

const CONNECT_LABELS: Partial<Record<AppError['code'], string>> = {
  sign_in_required: 'Sign in',
  not_connected: 'Connect',
  reconnect_needed: 'Connect again',
  step_up_required: 'Confirm that it is you',
};

/** Also for routes that show a failure as a part of their page, so that the reference on it is in the log. */
export function report(events: Events, req: Request, error: AppError): void {
  const { id: requestId, route } = req.context;
  events.requestFailed({
    requestId,
    route,
    method: req.method,
    code: error.code,
    status: error.status,
    detail: error.logDetail,
    cause: error.cause,
  });
}

/** What express and its body parsers throw has a status; their messages repeat input, so they go no further. */
function asAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  if (isWantOfDescriptors(thrown)) return new AppError('overloaded', { retryAfterSeconds: 2, cause: thrown });
  const status = thrown instanceof Error && 'status' in thrown ? thrown.status : undefined;
  if (status === 413) return new AppError('too_large', { detail: 'Send less at once.' });
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new AppError('invalid_request', { detail: 'The address or the body of the request cannot be read.' });
  }
  return new AppError('internal', { cause: thrown });
}

/** Of the process, or of the whole system: it passes, and nothing is wrong with the request (F21). */
function isWantOfDescriptors(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && (thrown.code === 'EMFILE' || thrown.code === 'ENFILE');
}
