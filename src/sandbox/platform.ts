/** Serves the API of the platform. */
import { randomUUID } from 'node:crypto';
import express, { type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import type { Account } from './accounts.ts';
import { type Authorization, refuse } from './authorization.ts';
import type { PlatformCall } from './platform-calls.ts';
import type { CountedCall } from './rate-limits.ts';
import { THREAD_ID } from './threads.ts';

export interface PlatformParts {
  authorization: Authorization;
  calls: readonly PlatformCall[];
  issuer: string;
  countCall: (accountId: string) => CountedCall;
  report: (error: unknown) => void;
}

const MAX_FORM_BYTES = 10 * 1024;

export function createPlatform(parts: PlatformParts): express.Express {
  const { authorization, calls, issuer, countCall, report } = parts;
  const guard = (scopes: readonly string[]) => async (req: Request, res: Response, next: NextFunction) => {
    const account = await authorization.authorize(req, res, scopes);
    if (account === undefined) return;
    const { headers, refusedWith } = countCall(account.id);
    res.set(headers);
    // Real platforms set cookies in API responses, which a relay must not pass on.
    res.cookie('platform_affinity', randomUUID(), { httpOnly: true, sameSite: 'lax' });
    if (refusedWith === undefined) {
      res.locals.account = account;
      return next();
    }
    res.statusMessage = 'Over Rate Limit';
    refuse(res, refusedWith, 'over_rate_limit', 'Over Rate Limit');
  };
  const app = express();
  app.disable('x-powered-by');
  app.use((_req, res, next) => {
    res.set({ Server: 'nginx', 'X-Request-Id': randomUUID(), 'Cache-Control': 'private, max-age=0, must-revalidate' });
    next();
  });

  const readForm = express.urlencoded({ limit: MAX_FORM_BYTES, extended: false });
  for (const { method, path, scopes, maxBodyBytes, respond } of calls) {
    const route = app.route(path.replaceAll(/\{(\w+)\}/g, ':$1'));
    const handle: RequestHandler = (req, res) => respond(req, res, res.locals.account as Account);
    if (method === 'GET') {
      route.get(guard(scopes), handle);
      route.all(notAllowed('GET, HEAD', 'This resource can only be read.'));
    } else {
      // Authorize before reading the body, except for a form, which may contain a second token.
      route.post(readForm, guard(scopes), express.json({ limit: maxBodyBytes }), handle);
      route.all(notAllowed('POST', 'This resource accepts only POST.'));
    }
  }

  // `thread.link` redirects to a page of the identity provider, where the user is signed in.
  app.get('/:id', (req, res, next) => {
    // Redirect for unknown ids too: the redirect must not reveal whether a thread exists.
    if (!THREAD_ID.test(req.params.id)) return next();
    res.redirect(303, `${issuer}/threads/${req.params.id}`);
  });
  app.use((_req, res) => refuse(res, 404, 'not_found', 'There is no such resource.'));
  app.use((error: unknown, _req: Request, res: Response, _next: NextFunction) => failed(error, res, report));
  return app;
}

function notAllowed(methods: string, description: string) {
  return (_req: Request, res: Response) => {
    res.set('Allow', methods);
    refuse(res, 405, 'method_not_allowed', description);
  };
}

function failed(error: unknown, res: Response, report: (error: unknown) => void): void {
  const { status } = error as { status?: unknown };
  if (typeof status === 'number' && status < 500) {
    refuse(res, status, 'invalid_request', unreadable(error));
    return;
  }
  report(error);
  res.set('Retry-After', '1');
  refuse(res, 503, 'temporarily_unavailable', 'The token could not be checked. Try again.');
}

/** Describes a request that Express could not read. */
function unreadable(error: unknown): string {
  const { type, limit } = error as { type?: unknown; limit?: unknown };
  if (type === 'entity.parse.failed') return 'The body is not JSON.';
  if (type === 'entity.too.large') return `The body is larger than ${Number(limit) / 1024} kB.`;
  return 'The address or the body cannot be read.';
}
