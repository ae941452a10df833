/** Guards of the administration: an administrator's session or, for the API, an admin token (R82, R88). */
import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler } from 'express';
import type { PublicUrl } from '../../shared/config/rules.ts';
import { AppError } from '../../shared/errors.ts';
import { wantsData } from '../../shared/http/accept.ts';
import { bearerOf } from '../../shared/http/bearer.ts';
import { readLongBody } from '../../shared/http/body.ts';
import { requiringUser, type UserGuard } from '../../shared/http/description.ts';
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import type { UserGuards } from '../../shared/http/route-table.ts';
import { readUpload } from '../../shared/http/upload.ts';
import { actorOf } from '../../shared/sessions/actor.ts';
import { csrfGuard } from '../../shared/sessions/csrf.ts';
import { pageOfForm, type SessionGuards, sessionOf } from '../../shared/sessions/guards.ts';
import type { Session } from '../../shared/sessions/session.ts';
import { wasRecentAtSignIn } from '../../shared/sessions/step-up.ts';
import { parseOpaqueToken } from '../../shared/storage/opaque-token.ts';
import { ADMIN_TOKEN_PREFIX, type AdminTokenScope, type AdminTokens } from '../admin-tokens/admin-tokens.ts';
import type { AuditEntry } from '../audit/kinds.ts';

/** The largest known BIN data set has 30 MB, or 4 MB gzipped. */
export const MAX_UPLOAD_BYTES = 64 * 2 ** 20;

export interface AdminGuards {
  /** For pages. A browser without a session is redirected to the sign-in with the app for administrators. */
  page: UserGuards;
  /** For the forms of pages. */
  form: UserGuards;
  /** For forms with a file. */
  upload: UserGuards;
  /** For API calls that change nothing. */
  read: UserGuards;
  /** For API calls that have a body but change nothing. */
  query: UserGuards;
  /** For API calls that change something. A session needs the CSRF token. */
  write: UserGuards;
}

/** The sign-in that the administration requires. */
export interface AdminSignIn {
  /** The app whose users can be administrators, if there is one. */
  adminApp: () => string | undefined;
  /** The required `acr`, and the address of the sign-in that provides it. Undefined if any session is accepted. */
  stepUp: { acr: string; href: () => string } | undefined;
}

const NO_ADMINISTRATOR = {
  detail: 'Only administrators may see this.',
  words: { advice: 'Sign in as an administrator, or ask the operator of this service for access.' },
};
const NO_ADMINISTRATORS = {
  detail: 'No administrators are configured.',
  words: {
    advice:
      'No administrators are configured. If you run this service, set ADMIN_VALUES, and ADMIN_APP if users sign in with several apps of CONNECTED_APPS_FILE. An app that is registered elsewhere makes no administrator.',
  },
};

export function createAdminGuards(parts: {
  sessions: SessionGuards;
  tokens: Pick<AdminTokens, 'verify'>;
  limits: Pick<RateLimits, 'take'>;
  /** Writes to the audit trail later; never throws. */
  note: (entry: AuditEntry) => void;
  signIn: AdminSignIn;
  publicUrl: Pick<PublicUrl, 'origin' | 'href' | 'basePath'>;
}): AdminGuards {
  const { sessions, tokens, limits, note, publicUrl } = parts;
  const { adminApp, stepUp } = parts.signIn;
  const { origin, href, basePath } = publicUrl;
  const changeGuards = [...readLongBody, csrfGuard(origin)];

  /** Throws unless the session may use the administration. @param returnTo the page to return to after a new sign-in */
  const assertAdministrator = ({ user, acr, authTime, createdAt }: Session, returnTo?: string): void => {
    const hasAdministrators = adminApp() !== undefined;
    if (!user.admin || !hasAdministrators) {
      throw new AppError('not_allowed', {
        ...(hasAdministrators ? NO_ADMINISTRATOR : NO_ADMINISTRATORS),
        action: returnTo === undefined ? undefined : switchAccount(returnTo),
      });
    }
    if (!stepUp || (acr === stepUp.acr && wasRecentAtSignIn(authTime, createdAt))) return;
    throw new AppError('step_up_required', {
      detail: 'The administration needs a stronger sign-in than your current one. Sign in again.',
      connectUrl: `${stepUp.href()}&return_to=${encodeURIComponent(returnTo ?? `${basePath}/admin`)}`,
    });
  };

  const switchAccount = (returnTo: string) => ({
    label: 'Use another account',
    url: `${href}/sign-out?return_to=${encodeURIComponent(returnTo)}`,
    isForm: true,
  });

  const requireAdministrator =
    (isPage: boolean): RequestHandler =>
    (req, res, next) => {
      try {
        assertAdministrator(sessionOf(req), isPage ? req.originalUrl : pageOfForm(req, origin));
        next();
      } catch (error) {
        const canStepUp = isPage && error instanceof AppError && error.code === 'step_up_required' && !wantsData(req);
        if (canStepUp && error.connectUrl !== undefined) return res.redirect(303, error.connectUrl);
        next(withAuditEntry(req, error));
      }
    };

  /** Writes the refusal to the audit trail if the caller sent credentials, and returns the error. */
  const withAuditEntry = (req: Request, error: unknown): unknown => {
    const hasCredentials = req.context.session !== undefined || req.headers.authorization !== undefined;
    if (hasCredentials && error instanceof AppError && error.status < 500)
      note({
        event: 'admin.refused',
        ...actorOf(req),
        outcome: 'refused',
        code: error.code,
        facts: { route: req.context.route },
      });
    return error;
  };

  /** Authorizes an API call. An `Authorization` header replaces the cookie, even if its token is refused. */
  const authorize = async (req: IncomingMessage, scope: AdminTokenScope): Promise<void> => {
    const { isSent, token: text } = bearerOf(req);
    if (!isSent) {
      assertAdministrator(await sessions.authenticateUser(req).catch(withChallenge));
      return;
    }
    const token = text === undefined ? undefined : await tokens.verify(text);
    if (!token) {
      // Only a well-formed token can be a guess; guesses are limited for each address (R84).
      if (text !== undefined && parseOpaqueToken(ADMIN_TOKEN_PREFIX, text)) limits.take('guess', req.context.address);
      throw invalidToken();
    }
    if (scope === 'write' && token.scope !== 'write') throw missingScope(scope);
    req.context.adminToken = { id: token.id, name: token.name };
  };

  const api = (scope: AdminTokenScope): UserGuard<RequestHandler> =>
    requiringUser<RequestHandler>(
      [{ adminToken: [] }, { session: [] }],
      (req, _res, next) =>
        void authorize(req, scope).then(
          () => next(),
          (error: unknown) => next(withAuditEntry(req, error)),
        ),
    );

  return {
    page: [sessions.requireUserOfAppOrRedirect(adminApp), requireAdministrator(true)],
    form: [sessions.requireUser, requireAdministrator(false), ...changeGuards],
    upload: [sessions.requireUser, requireAdministrator(false), readUpload(MAX_UPLOAD_BYTES), csrfGuard(origin)],
    read: [api('read')],
    query: [api('read'), ...changeGuards],
    write: [api('write'), ...changeGuards],
  };
}

function withChallenge(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== 'sign_in_required') throw error;
  throw new AppError('sign_in_required', {
    detail: 'Send an admin token as "Authorization: Bearer gtha_…", or sign in as an administrator.',
    headers: { 'WWW-Authenticate': 'Bearer' },
  });
}

/** Unknown, expired, revoked and malformed tokens get the same response (R84). */
function invalidToken(): AppError {
  return new AppError('sign_in_required', {
    detail: 'The admin token is not valid. Send a valid one, once, as "Authorization: Bearer gtha_…".',
    headers: { 'WWW-Authenticate': 'Bearer error="invalid_token"' },
  });
}

function missingScope(scope: AdminTokenScope): AppError {
  return new AppError('insufficient_scope', {
    detail: `This admin token may only read. Create one with the scope "${scope}".`,
    headers: { 'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
  });
}
