/** The response to a request that is refused before the app sees it: a page for a browser, a document for others. */
import { randomUUID } from 'node:crypto';
import type { ProblemCode } from '../errors.ts';
import { PROBLEM_TYPE, problemDocument } from './problem-document.ts';
import { securityHeaders } from './security-headers.ts';

export interface RefusedRequest {
  code: ProblemCode;
  status: number;
  /** Undefined if it could not be read. */
  method?: string | undefined;
  /** The values of the headers `Accept` and `Cookie`, if they could be read. */
  accept?: string | undefined;
  cookie?: string | undefined;
}

/** The page for a browser. It loads nothing, since a request for a style could be refused as well. */
export interface RefusalPage {
  /** Its content security policy. */
  policy: string;
  draw(refused: Omit<RefusedRequest, 'accept'>): string;
}

/** Called for a request that is refused before it reaches the app. `id` is the `X-Request-Id` of the response. */
export type OnRefused = (
  code: ProblemCode,
  refusal: { id: string; status: number; method?: string | undefined },
) => void;

/** Returns the response. It closes the connection, because the rest of the stream may be unparseable. */
export type Refuse = (refused: RefusedRequest) => { headers: Record<string, string>; body: string };

export function createRefuse(parts: { publicHref: string; page: RefusalPage; onRefused?: OnRefused }): Refuse {
  const { publicHref, page, onRefused } = parts;
  const commonHeaders = Object.fromEntries(securityHeaders(publicHref));
  return (refused) => {
    const { code, status, method } = refused;
    const id = randomUUID();
    onRefused?.(code, { id, status, method });
    const isForBrowser = namesHtml(refused.accept);
    const body = isForBrowser ? page.draw(refused) : problemDocument(publicHref, { code, status, id });
    const headers = {
      ...commonHeaders,
      ...(isForBrowser && { 'Content-Security-Policy': page.policy }),
      Connection: 'close',
      'Content-Type': `${isForBrowser ? 'text/html' : PROBLEM_TYPE}; charset=utf-8`,
      'Content-Length': String(Buffer.byteLength(body)),
      'X-Request-Id': id,
    };
    return { headers, body };
  };
}

/** Returns true for the `Accept` header of a browser's navigation, which names HTML and not JSON. */
function namesHtml(accept: string | undefined): boolean {
  return accept !== undefined && /\btext\/html\b/i.test(accept) && !/\bapplication\/([\w.-]+\+)?json\b/i.test(accept);
}
