/** Who may enter the administration: the session of an administrator, or at its API an admin token in the header (R82, R88). */
import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler } from 'express';
import type { AuditEntry } from '../audit/kinds.ts';
import { AppError } from '../errors.ts';
import { wantsData } from '../http/accept.ts';
import { bearerOf } from '../http/bearer.ts';
import { readLongBody } from '../http/body.ts';
import { requiring } from '../http/description.ts';
import type { RateLimits } from '../http/rate-limit.ts';
import { actorOf } from '../sessions/actor.ts';
import { csrfGuard } from '../sessions/csrf.ts';
import { type SessionGuards, sessionOf } from '../sessions/guards.ts';
import type { Session } from '../sessions/session.ts';
import { isRecent } from '../sessions/step-up.ts';
import { parseOpaqueToken } from '../storage/opaque-token.ts';
import { ADMIN_TOKEN_PREFIX, type AdminTokenScope, type AdminTokens } from './admin-tokens/admin-token.ts';

export interface AdminGuards {
  /** Pages: sends a browser that is not signed in to the sign-in, and refuses whoever is no administrator. */
  page: RequestHandler[];
  /** What forms of those pages are sent to. */
  form: RequestHandler[];
  /** Calls of the API that change nothing. */
  read: RequestHandler[];
  /** Calls of the API that change nothing, with a body that says what is asked. */
  ask: RequestHandler[];
  /** Calls of the API that change something: with a session the CSRF token is demanded. */
  write: RequestHandler[];
}

export function createAdminGuards(parts: {
  sessions: SessionGuards;
  tokens: Pick<AdminTokens, 'verify'>;
  limits: Pick<RateLimits, 'take'>;
  /** Takes a note for the audit trail; never throws. */
  note: (entry: AuditEntry) => void;
  origin: string;
  /** The `acr` that a session must have, where it is had, and what comes after it; left out where any session will do. */
  stepUp?: { acr: string; href: string; home: string } | undefined;
}): AdminGuards {
  const { sessions, tokens, limits, note, origin, stepUp } = parts;
  const change = [...readLongBody, csrfGuard(origin)];

  /** The one place that says who administers, for pages, forms and API alike. @param returnTo where the step-up leads back to */
  const assertAdministrator = ({ user, acr, authTime, createdAt }: Session, returnTo?: string): void => {
    if (!user.admin) {
      throw new AppError('not_allowed', {
        detail: 'Only administrators may see this. If you should be one, ask whoever runs this service.',
      });
    }
    if (!stepUp || (acr === stepUp.acr && isRecent(authTime, createdAt))) return;
    throw new AppError('step_up_required', {
      detail: 'The administration needs a stronger sign-in than the one you have now: sign in once more.',
      connectUrl: `${stepUp.href}&return_to=${encodeURIComponent(returnTo ?? stepUp.home)}`,
    });
  };

  const administrator =
    (isPage: boolean): RequestHandler =>
    (req, res, next) => {
      try {
        assertAdministrator(sessionOf(req), isPage ? req.originalUrl : undefined);
        next();
      } catch (error) {
        const leadsOn = isPage && error instanceof AppError && error.code === 'step_up_required' && !wantsData(req);
        if (leadsOn && error.connectUrl !== undefined) return res.redirect(303, error.connectUrl);
        next(noted(req, error));
      }
    };
  /** Whoever came with something and was refused; that nobody is signed in is no news. */
  const noted = (req: Request, error: unknown): unknown => {
    const came = req.context.session !== undefined || req.headers.authorization !== undefined;
    if (came && error instanceof AppError && error.status < 500)
      note({ event: 'admin.refused', ...actorOf(req), outcome: error.code, facts: { route: req.context.route } });
    return error;
  };

  /** With a header no cookie counts, not even where the header is refused. */
  const enter = async (req: IncomingMessage, scope: AdminTokenScope): Promise<void> => {
    const { given, token: text } = bearerOf(req);
    if (!given) {
      assertAdministrator(await sessions.admitUser(req).catch(withChallenge));
      return;
    }
    const token = text === undefined ? undefined : await tokens.verify(text);
    if (!token) {
      // What is not even formed like one finds no token; whoever tries those that are is held up (R84).
      if (text !== undefined && parseOpaqueToken(ADMIN_TOKEN_PREFIX, text)) limits.take('guess', req.context.address);
      throw invalidToken();
    }
    if (scope === 'write' && token.scope !== 'write') throw missingScope(scope);
    req.context.adminToken = { id: token.id, name: token.name };
  };
  const api = (scope: AdminTokenScope): RequestHandler =>
    requiring<RequestHandler>(
      [{ adminToken: [] }, { session: [] }],
      (req, _res, next) =>
        void enter(req, scope).then(
          () => next(),
          (error: unknown) => next(noted(req, error)),
        ),
    );

  return {
    page: [sessions.requireUserOrRedirect, administrator(true)],
    form: [sessions.requireUser, administrator(false), ...change],
    read: [api('read')],
    ask: [api('read'), ...change],
    write: [api('write'), ...change],
  };
}

function withChallenge(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== 'sign_in_required') throw error;
  throw new AppError('sign_in_required', {
    detail: 'Send an admin token as "Authorization: Bearer gtha_…", or sign in as an administrator.',
    headers: { 'WWW-Authenticate': 'Bearer' },
  });
}

/** Unknown, expired, revoked and malformed are told alike (R84). */
function invalidToken(): AppError {
  return new AppError('sign_in_required', {
    detail: 'This is no valid admin token: send one that is, once, as "Authorization: Bearer gtha_…".',
    headers: { 'WWW-Authenticate': 'Bearer error="invalid_token"' },
  });
}

function missingScope(scope: AdminTokenScope): AppError {
  return new AppError('insufficient_scope', {
    detail: `This admin token may only read: make one with the scope "${scope}".`,
    headers: { 'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
  });
}
