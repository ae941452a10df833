/** Owns the platform's API: who is let in by which token, and the answers as such a platform gives them. */
import { randomUUID } from 'node:crypto';
import express, { type NextFunction, type Request, type Response } from 'express';
import type { ActiveToken, Introspect } from './introspection.ts';
import { createRateHeaders } from './rate-headers.ts';
import { FULL_SCOPE, READ_SCOPE } from './scopes.ts';
import type { ThreadAnswer } from './threads.ts';

export interface PlatformParts {
  introspect: Introspect;
  threads: { currentOf(accountId: string): ThreadAnswer | undefined };
  now: () => number;
  report: (error: unknown) => void;
}

export function createPlatform({ introspect, threads, now, report }: PlatformParts): express.Express {
  const rateHeaders = createRateHeaders({ now });
  const app = express();
  app.disable('x-powered-by');
  app.use((_req, res, next) => {
    res.set({ Server: 'nginx', 'X-Request-Id': randomUUID(), 'Cache-Control': 'private, max-age=0, must-revalidate' });
    next();
  });

  const currentThread = app.route('/1/threads/current');
  currentThread.get(async (req, res) => {
    const token = await admit(introspect, req, res, [READ_SCOPE, FULL_SCOPE]);
    if (token === undefined) return;
    const thread = threads.currentOf(token.subject);
    if (thread === undefined) return refuse(res, 404, 'not_found', 'This user has no current thread.');
    res.set(rateHeaders(token.subject));
    // Real platforms set cookies on API answers; whoever relays the answer must not pass them on.
    res.cookie('platform_affinity', randomUUID(), { httpOnly: true, sameSite: 'lax' });
    res.json(thread);
  });
  currentThread.all((_req, res) => {
    res.set('Allow', 'GET, HEAD');
    refuse(res, 405, 'method_not_allowed', 'This resource can only be read.');
  });

  app.use((_req, res) => refuse(res, 404, 'not_found', 'There is no such resource.'));
  app.use((error: unknown, _req: Request, res: Response, _next: NextFunction) => {
    report(error);
    res.set('Retry-After', '1');
    refuse(res, 503, 'temporarily_unavailable', 'The token could not be checked. Try again.');
  });
  return app;
}

/** The token behind the request when it is good and has one of the scopes; otherwise answers as RFC 6750 section 3 says. */
async function admit(
  introspect: Introspect,
  req: Request,
  res: Response,
  scopes: readonly string[],
): Promise<ActiveToken | undefined> {
  const given = /^bearer(?: +(.*))?$/i.exec(req.headers.authorization ?? '');
  if (given === null) {
    challenge(res, 401, 'Bearer', 'authentication_required', 'Send an access token in the Authorization header.');
    return undefined;
  }
  const value = given[1] ?? '';
  const token = /^[A-Za-z0-9\-._~+/]+=*$/.test(value) ? await introspect(value) : undefined;
  if (token === undefined) {
    const header = 'Bearer error="invalid_token"';
    challenge(res, 401, header, 'invalid_token', 'The access token is unknown, expired or revoked.');
    return undefined;
  }
  if (scopes.some((scope) => token.scopes.has(scope))) return token;
  const header = `Bearer error="insufficient_scope", scope="${scopes[0]}"`;
  challenge(res, 403, header, 'insufficient_scope', `This needs one of the scopes ${scopes.join(', ')}.`);
  return undefined;
}

function challenge(res: Response, status: number, header: string, error: string, description: string): void {
  res.set('WWW-Authenticate', header);
  refuse(res, status, error, description);
}

function refuse(res: Response, status: number, error: string, description: string): void {
  res.status(status).json({ error, error_code: status, error_description: description });
}
