/** Serves the API of the platform: the current user, and threads. */
import { randomUUID } from 'node:crypto';
import express, { type NextFunction, type Request, type Response } from 'express';
import { z } from 'zod';
import type { Account } from './accounts.ts';
import { type Authorization, refuse } from './authorization.ts';
import type { CountedCall } from './rate-limits.ts';
import { FULL_SCOPE, READ_SCOPE } from './scopes.ts';
import { THREAD_ID, type Threads } from './threads.ts';

export interface PlatformParts {
  authorization: Authorization;
  threads: Threads;
  issuer: string;
  countCall: (accountId: string) => CountedCall;
  report: (error: unknown) => void;
}

type Handler = (req: Request, res: Response, account: Account) => void;

const MAX_RECENT = 50;

/** Descriptions of unreadable requests, by the error type of Express. */
const UNREADABLE: Readonly<Record<string, string>> = {
  'entity.parse.failed': 'The body is not JSON.',
  'entity.too.large': 'The body is larger than 200 kB, or a form larger than 10 kB.',
};

const newDocumentSchema = z.object({
  title: z.string().trim().min(1, 'must not be empty').max(200, 'must be 200 characters or less'),
  content: z.string().min(1, 'must not be empty').max(100_000, 'must be 100000 characters or less'),
});

export function createPlatform(parts: PlatformParts): express.Express {
  const { authorization, threads, issuer, countCall, report } = parts;
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
  const withAccount = (handle: Handler) => (req: Request, res: Response) =>
    handle(req, res, res.locals.account as Account);
  const app = express();
  app.disable('x-powered-by');
  app.use((_req, res, next) => {
    res.set({ Server: 'nginx', 'X-Request-Id': randomUUID(), 'Cache-Control': 'private, max-age=0, must-revalidate' });
    next();
  });

  const addReadable = (path: string, handle: Handler) => {
    const route = app.route(path).get(guard([READ_SCOPE, FULL_SCOPE]), withAccount(handle));
    route.all(notAllowed('GET, HEAD', 'This resource can only be read.'));
  };
  addReadable('/1/users/current', (_req, res, account) => void res.json(userOf(account)));
  addReadable('/1/threads/current', (_req, res, account) => {
    const thread = threads.currentOf(account.id);
    if (thread === undefined) return refuse(res, 404, 'not_found', 'This user has no current thread.');
    res.json(thread);
  });
  addReadable('/1/threads/recent', (req, res, account) => {
    const count = Number(req.query.count ?? 10);
    if (!Number.isInteger(count) || count < 1 || count > MAX_RECENT) {
      return refuse(res, 400, 'invalid_request', `count must be a whole number from 1 to ${MAX_RECENT}.`);
    }
    const recent = threads.recentOf(account.id).slice(0, count);
    res.json(Object.fromEntries(recent.map((document) => [document.thread.id, document])));
  });
  const newDocumentRoute = app.route('/1/threads/new-document');
  // Authorize before reading the body, except for a form, which may contain a second token.
  const readForm = express.urlencoded({ limit: '10kb', extended: false });
  newDocumentRoute.post(
    readForm,
    guard([FULL_SCOPE]),
    express.json({ limit: '200kb' }),
    withAccount(newDocument(threads)),
  );
  newDocumentRoute.all(notAllowed('POST', 'Use POST to create a document.'));
  addReadable('/1/threads/:id', (req, res, account) => {
    // The response is the same whether the thread belongs to others or does not exist.
    const thread = threads.find(String(req.params.id), account.id);
    if (thread === undefined)
      return refuse(res, 404, 'not_found', 'There is no such thread, or it is not shared with you.');
    res.json(thread);
  });

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

function newDocument(threads: Threads): Handler {
  return (req, res, account) => {
    const parsed = newDocumentSchema.safeParse(req.is('json') ? req.body : undefined);
    if (parsed.success) return void res.json(threads.add({ author: account, ...parsed.data }));
    const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
    refuse(res, 400, 'invalid_request', `${faults.join('; ')}.`);
  };
}

function userOf({ id, name, login, kind }: Account) {
  return { id, name, emails: kind === 'person' ? [login] : [], is_robot: kind === 'service', affinity: 0 };
}

function notAllowed(methods: string, description: string) {
  return (_req: Request, res: Response) => {
    res.set('Allow', methods);
    refuse(res, 405, 'method_not_allowed', description);
  };
}

function failed(error: unknown, res: Response, report: (error: unknown) => void): void {
  const { status, type } = error as { status?: unknown; type?: unknown };
  if (typeof status === 'number' && status < 500) {
    refuse(res, status, 'invalid_request', UNREADABLE[String(type)] ?? 'The address or the body cannot be read.');
    return;
  }
  report(error);
  res.set('Retry-After', '1');
  refuse(res, 503, 'temporarily_unavailable', 'The token could not be checked. Try again.');
}
