/** Guards that read the session of a request and refuse callers that are not signed in. */
import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler } from 'express';
import type { PublicUrl } from '../config/rules.ts';
import { AppError } from '../errors.ts';
import { wantsData, wantsPage } from '../http/accept.ts';
import { type Credentials, requiringUser, type UserGuard } from '../http/description.ts';
import { forwardedPath, localReferrer } from '../http/return-path.ts';
import type { BrowserSessions } from './browser-sessions.ts';
import type { Session } from './session.ts';

const SESSION: Credentials = [{ session: [] }];

export interface SessionGuards {
  /** Adds the session, if there is one, to the request and extends its idle time. */
  loadSession: RequestHandler;

  /** Like `loadSession`, without extending the idle time. */
  peekSession: RequestHandler;

  /** Refuses with `sign_in_required`. */
  requireUser: UserGuard<RequestHandler>;

  /** Like `requireUser`, without Express. @throws AppError `sign_in_required` */
  authenticateUser: UserGuard<(req: IncomingMessage) => Promise<Session>>;

  /**
   * Like `requireUser`, for a reverse proxy that asks about a user's request. If the user opens a page, the response
   * has a `Gatehouse-Sign-In` header: the URL to sign in at, which leads back to that page.
   */
  requireUserForProxy: UserGuard<RequestHandler>;

  /** Like `requireUser`, but sends a browser to sign in and back. */
  requireUserOrRedirect: UserGuard<RequestHandler>;

  /** Like `requireUserOrRedirect`; the sign-in uses this app. */
  requireUserOfAppOrRedirect(appId: () => string | undefined): UserGuard<RequestHandler>;
}

export function createSessionGuards(parts: {
  read: BrowserSessions['read'];
  publicUrl: Pick<PublicUrl, 'href' | 'origin' | 'basePath'>;
  /** Whether the peer is a trusted proxy. */
  isTrusted: (address: string) => boolean;
}): SessionGuards {
  const { read, publicUrl, isTrusted } = parts;

  const load = async (req: IncomingMessage, { extend }: { extend: boolean }): Promise<Session | undefined> => {
    req.context.session = await read(req, { extend });
    return req.context.session;
  };

  const signInRequired = (returnTo?: string, { withSignInHeader = false } = {}) => {
    const query = returnTo === undefined ? '' : `?${new URLSearchParams({ return_to: returnTo })}`;
    const connectUrl = `${publicUrl.href}/sign-in${query}`;
    return new AppError('sign_in_required', {
      detail: 'You are not signed in, or your session has ended. Sign in and try again.',
      connectUrl,
      ...(withSignInHeader && { headers: { 'Gatehouse-Sign-In': connectUrl } }),
    });
  };

  const continueForUser: RequestHandler = (req, _res, next) =>
    load(req, { extend: true }).then(
      (session) => next(session ? undefined : signInRequired(pageOfForm(req, publicUrl.origin))),
      next,
    );

  const continueForProxiedUser: RequestHandler = async (req, _res, next) => {
    if (await load(req, { extend: true })) return next();
    // A script that accepts HTML could not follow the redirect to the provider (Fetch Standard, section 4.3).
    if (!wantsPage(req) || (req.get('sec-fetch-mode') ?? 'navigate') !== 'navigate') throw signInRequired();
    // Only a trusted proxy may name the page.
    const returnTo = isTrusted(req.socket.remoteAddress ?? '') ? forwardedPath(req, publicUrl) : undefined;
    throw signInRequired(returnTo, { withSignInHeader: true });
  };

  const sessionOfUser = async (req: IncomingMessage): Promise<Session> => {
    const session = await load(req, { extend: true });
    if (!session) throw signInRequired();
    return session;
  };

  const sessionLoader =
    ({ extend }: { extend: boolean }): RequestHandler =>
    (req, _res, next) =>
      load(req, { extend }).then(() => next(), next);

  const requiringUserOrRedirecting = (appId: () => string | undefined): UserGuard<RequestHandler> =>
    requiringUser<RequestHandler>(SESSION, (req, res, next) =>
      load(req, { extend: true }).then((session) => {
        if (session) return next();
        // A GET with `Accept: */*` is redirected, too.
        if (req.method !== 'GET' || wantsData(req)) return next(signInRequired());
        const app = appId();
        const query = new URLSearchParams({ ...(app && { app }), return_to: req.originalUrl });
        return res.redirect(303, `${publicUrl.basePath}/sign-in?${query}`);
      }, next),
    );

  return {
    loadSession: sessionLoader({ extend: true }),
    peekSession: sessionLoader({ extend: false }),
    requireUser: requiringUser(SESSION, continueForUser),
    requireUserForProxy: requiringUser(SESSION, continueForProxiedUser),
    authenticateUser: requiringUser(SESSION, sessionOfUser),
    requireUserOrRedirect: requiringUserOrRedirecting(() => undefined),
    requireUserOfAppOrRedirect: requiringUserOrRedirecting,
  };
}

/**
 * Returns the local path of the page whose form a browser sent, so that a user can return there after signing in. The
 * content of the form is lost.
 */
export function pageOfForm(req: Request, origin: string): string | undefined {
  if (req.method !== 'POST' || !wantsPage(req)) return undefined;
  const page = localReferrer(req.get('referer'), { origin });
  const [pathname = ''] = page?.split('?') ?? [];
  // The page may be the response to a form, whose address cannot be opened.
  const isOwn = pathname.startsWith(req.baseUrl);
  return isOwn && req.context.isWithoutGet?.(pathname.slice(req.baseUrl.length)) ? undefined : page;
}

/** The session of a request, for handlers behind a guard that requires a user. */
export function sessionOf(req: IncomingMessage): Session {
  const { session } = req.context;
  if (!session) throw new AppError('sign_in_required');
  return session;
}
