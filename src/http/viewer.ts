/** Owns who is looking: reads the session for a request, and guards routes that need one. */
import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler } from 'express';
import { AppError } from '../errors.ts';
import type { Sessions } from './session.ts';
import type { Viewer } from './session-data.ts';

export interface ViewerGuards {
  /** Notes who is signed in, if anybody; extends the idle time. */
  anyone: RequestHandler;
  /** The same without extending it. */
  onlooker: RequestHandler;
  /** Refuses with `sign_in_required`. */
  user: RequestHandler;
  /** The same as a promise. @throws AppError */
  requireUser(req: IncomingMessage): Promise<Viewer>;
  /** Sends a browser that is not signed in to the sign-in, and back here afterwards. */
  userPage: RequestHandler;
}

export function createViewerGuards(parts: { sessions: Sessions; publicHref: string; basePath: string }): ViewerGuards {
  const { sessions, publicHref, basePath } = parts;

  const note = (req: IncomingMessage, extend: boolean): Promise<Viewer | undefined> =>
    sessions.read(req, { extend }).then((live) => {
      req.context.viewer = live?.viewer;
      return live?.viewer;
    });

  const required = () =>
    new AppError('sign_in_required', {
      detail: 'There is no session, or it has ended. Sign in and try again.',
      connectUrl: `${publicHref}/sign-in`,
    });

  const requireUser = async (req: IncomingMessage): Promise<Viewer> => {
    const viewer = await note(req, true);
    if (!viewer) throw required();
    return viewer;
  };

  return {
    requireUser,
    anyone: (req, _res, next) => note(req, true).then(() => next(), next),
    onlooker: (req, _res, next) => note(req, false).then(() => next(), next),
    user: (req, _res, next) => requireUser(req).then(() => next(), next),
    userPage: (req, res, next) =>
      note(req, true).then((viewer) => {
        if (viewer) return next();
        if (req.method !== 'GET' || wantsData(req)) return next(required());
        return res.redirect(303, `${basePath}/sign-in?return_to=${encodeURIComponent(req.originalUrl)}`);
      }, next),
  };
}

/** The viewer behind a guard that demands one. */
export function viewerOf(req: IncomingMessage): Viewer {
  const { viewer } = req.context;
  if (!viewer) throw new AppError('sign_in_required');
  return viewer;
}

/** True for a browser that navigates: it prefers HTML to JSON. */
export function wantsPage(req: Request): boolean {
  return req.accepts(['application/json', 'text/html']) === 'text/html';
}

/** True for a program that asks for JSON in so many words; whoever takes anything gets a page where there is one. */
export function wantsData(req: Request): boolean {
  return req.accepts(['text/html', 'application/json']) === 'application/json';
}
