/** Responds to every error, with a page for browsers and a problem document (RFC 9457) for other callers. */
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
  references: Pick<ProblemReferences, 'record'>;
  clock: () => number;
}

/**
 * Creates the error handler. An error that is not an AppError becomes a 500 without details.
 * @param proxiedPaths routes whose callers must be able to distinguish our refusals from those of the platform
 *   (`Proxy-Status`, RFC 9209)
 */
export function problemHandler(
  parts: ProblemParts,
  proxiedPaths: ReadonlySet<string> = new Set(),
): ErrorRequestHandler {
  // Express recognizes an error handler by its four parameters.
  return (thrown: unknown, req, res, _next) => {
    const error = asAppError(thrown);
    // Errors caused by a disconnected caller are not failures, but bugs and an unavailable storage are still logged.
    if (res.destroyed && !isOurFailure(error)) return;
    report(parts.events, req, error);
    if (res.destroyed) return;
    // The status has been sent, so only closing the connection can show that the response is incomplete.
    if (res.headersSent) {
      res.destroy();
      return;
    }
    for (const name of STALE_HEADERS) res.removeHeader(name);
    if (proxiedPaths.has(req.context.route)) res.set('Proxy-Status', `gatehouse; error=${ownRefusal(error)}`);
    res.set(error.headers).status(error.status);
    if (error.retryAfterSeconds !== undefined) res.set('Retry-After', String(error.retryAfterSeconds));
    return wantsPage(req) ? sendPage(parts, req, res, error) : sendDocument(parts.publicHref, req, res, error);
  };
}

function ownRefusal(error: AppError): string {
  return error.status < 500 ? 'http_request_denied' : 'proxy_internal_error';
}

/** Headers that the failed route may have set, and that would be wrong on the error response. */
const STALE_HEADERS = ['Content-Length', 'Content-Encoding', 'Content-Language', 'ETag', 'Last-Modified'];

async function sendPage(parts: ProblemParts, req: Request, res: Response, error: AppError): Promise<void> {
  const reference = await parts.references.record(req, error);
  const connectAction = error.connectUrl
    ? { label: CONNECT_LABELS[error.code] ?? 'Continue', url: error.connectUrl }
    : undefined;
  const { title, advice } = problemText(error.code);
  const hasCause = !PROGRAM_CODES.has(error.code) && error.detail !== advice;
  const { csrfToken, ...frame } = parts.pages.frame(req, error.words.title ?? title);
  // With `no-referrer`, browsers send `Origin: null`. Without `Sec-Fetch-Site`, which browsers do not send to plain http,
  // the CSRF check refuses that, so the page has no forms.
  const sendsOrigin = res.get('Referrer-Policy') !== 'no-referrer';
  parts.pages.send(res, 'errors/error', {
    page: sendsOrigin ? { ...frame, csrfToken } : frame,
    ...error.words,
    code: error.code,
    reference,
    time: isoTime(parts.clock()),
    cause: hasCause ? error.detail : undefined,
    helper: error.helper,
    action: error.action ?? connectAction,
    retryAfterSeconds: error.retryAfterSeconds,
  });
}

/** Codes whose details are for programs. Users get the text of the code. */
const PROGRAM_CODES: ReadonlySet<AppError['code']> = new Set([
  'method_not_allowed',
  'length_required',
  'unsupported_media_type',
]);

const CONNECT_LABELS: Partial<Record<AppError['code'], string>> = {
  sign_in_required: 'Sign in',
  not_connected: 'Connect',
  reconnect_needed: 'Reconnect',
  scopes_missing: 'Add permissions',
  provider_unavailable: 'Reconnect',
  platform_error: 'Reconnect',
  step_up_required: 'Confirm that it is you',
};
