/** Responds to every error: with a page for a browser, otherwise with a problem document (RFC 9457). */
import type { ErrorRequestHandler, Request, Response } from 'express';
import type { AppError } from '../errors.ts';
import { wantsPage } from '../http/accept.ts';
import { asAppError, report, sendDocument } from '../http/problem.ts';
import type { Events } from '../observability/events.ts';
import { isoTime } from '../time.ts';
import type { Pages } from './pages.ts';
import type { ProblemReferences } from './problem-references.ts';
import { isOurFailure, problemText } from './problem-texts.ts';

export interface ProblemParts {
  pages: Pages;
  events: Events;
  publicHref: string;
  basePath: string;
  references: Pick<ProblemReferences, 'keep'>;
  clock: () => number;
}

/**
 * An error that is no AppError becomes one opaque 500.
 * @param relayedPaths routes whose callers must be able to tell our refusals from the platform's (`Proxy-Status`, RFC 9209)
 */
export function problemHandler(
  parts: ProblemParts,
  relayedPaths: ReadonlySet<string> = new Set(),
): ErrorRequestHandler {
  // Express knows an error handler by its four parameters.
  return (thrown: unknown, req, res, _next) => {
    const error = asAppError(thrown);
    // A caller that disconnects causes errors that are no failures. A bug, or storage that is down, is logged all the same.
    if (res.destroyed && !isOurFailure(error)) return;
    report(parts.events, req, error);
    if (res.destroyed) return;
    // The status has been sent: closing the connection is the only way left to show that the response is incomplete.
    if (res.headersSent) {
      res.destroy();
      return;
    }
    for (const name of LEFT_BY_ROUTES) res.removeHeader(name);
    if (relayedPaths.has(req.context.route)) res.set('Proxy-Status', `gatehouse; error=${ownRefusal(error)}`);
    res.set(error.headers).status(error.status);
    if (error.retryAfterSeconds !== undefined) res.set('Retry-After', String(error.retryAfterSeconds));
    return wantsPage(req) ? sendPage(parts, req, res, error) : sendDocument(parts.publicHref, req, res, error);
  };
}

function ownRefusal(error: AppError): string {
  return error.status < 500 ? 'http_request_denied' : 'proxy_internal_error';
}

/** Headers that the failed route may have set and that would be wrong on the error response. */
const LEFT_BY_ROUTES = ['Content-Length', 'Content-Encoding', 'Content-Language', 'ETag', 'Last-Modified'];

async function sendPage(parts: ProblemParts, req: Request, res: Response, error: AppError): Promise<void> {
  const reference = await parts.references.keep(req, error);
  const connectStep = error.connectUrl
    ? { label: CONNECT_LABELS[error.code] ?? 'Go on', url: error.connectUrl }
    : undefined;
  const { csrfToken, ...frame } = parts.pages.frame(req, error.words.title ?? problemText(error.code).title);
  // Under `no-referrer`, browsers send forms with `Origin: null`, which the CSRF check refuses: leave the forms out.
  const sendsOrigin = res.get('Referrer-Policy') !== 'no-referrer';
  parts.pages.send(res, 'errors/error', {
    page: sendsOrigin ? { ...frame, csrfToken } : frame,
    ...error.words,
    code: error.code,
    reference,
    time: isoTime(parts.clock()),
    cause: FOR_PROGRAMS.has(error.code) ? undefined : error.detail,
    whose: error.whose,
    step: error.step ?? connectStep,
    retryAfterSeconds: error.retryAfterSeconds,
  });
}

/** Their details are for programs; users get the code's own text. */
const FOR_PROGRAMS: ReadonlySet<AppError['code']> = new Set(['method_not_allowed', 'length_required']);

const CONNECT_LABELS: Partial<Record<AppError['code'], string>> = {
  sign_in_required: 'Sign in',
  not_connected: 'Connect',
  reconnect_needed: 'Connect again',
  scopes_missing: 'Add permissions',
  provider_unavailable: 'Connect again',
  upstream_error: 'Connect again',
  step_up_required: 'Confirm that it is you',
};
