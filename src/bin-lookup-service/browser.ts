/** The cookies of the account pages: a session, and a random value that binds sign-ins to the browser. */
import type { IncomingMessage } from 'node:http';
import { parse as parseCookies } from 'cookie';
import type { CookieOptions, RequestHandler, Response } from 'express';
import type { SessionData } from 'express-session';
import type { PublicUrl } from '../shared/config/rules.ts';
import { AppError } from '../shared/errors.ts';
import { cookieName } from '../shared/http/cookie-name.ts';
import { describeBrowser } from '../shared/http/describe-browser.ts';
import type { Session } from '../shared/sessions/session.ts';
import type { SessionRecords } from '../shared/sessions/session-record.ts';
import type { Account } from './accounts.ts';

export interface Browsers {
  /** Adds the session of the browser to the request, if there is one. */
  loadSession: RequestHandler;
  /** Refuses a request without a session with `sign_in_required`. */
  requireUser: RequestHandler;
  /** Returns the random value from the browser's cookie. */
  secretOf(req: IncomingMessage): string | undefined;
  setSecret(res: Response, secret: string): void;
  /**
   * Begins a new session and replaces the random value, so that the earlier session and value are useless (R17, R103).
   */
  begin(req: IncomingMessage, res: Response, account: Account): Promise<void>;
  /** Clears both cookies, so that a pending callback cannot finish afterwards (R103). */
  end(req: IncomingMessage, res: Response): Promise<void>;
}

const TOKEN_FORM = /^[A-Za-z0-9_-]{43}$/;

/** @param parts `randomToken`: 32 random bytes in base64url; `signInUrl`: starts a sign-in */
export function createBrowsers(parts: {
  records: SessionRecords;
  publicUrl: Pick<PublicUrl, 'href' | 'secure'>;
  randomToken: () => string;
  signInUrl: string;
}): Browsers {
  const { records, publicUrl, randomToken, signInUrl } = parts;
  const sessionCookie = cookieName('bin-lookup-service', publicUrl.href);
  const secretCookie = cookieName('bin-lookup-service-tx', publicUrl.href);
  const options: CookieOptions = { httpOnly: true, sameSite: 'lax', path: '/', secure: publicUrl.secure };
  const read = (req: IncomingMessage, name: string): string | undefined => {
    const value = req.headers.cookie && parseCookies(req.headers.cookie)[name];
    return value && TOKEN_FORM.test(value) ? value : undefined;
  };

  const load = async (req: IncomingMessage): Promise<Session | undefined> => {
    const id = read(req, sessionCookie);
    req.context.session = id === undefined ? undefined : await records.read(id, { extend: true });
    return req.context.session;
  };

  const endSession = async (req: IncomingMessage) => {
    const id = read(req, sessionCookie);
    if (id !== undefined) await records.end(id);
  };

  const setSecret = (res: Response, secret: string) => void res.cookie(secretCookie, secret, options);

  return {
    loadSession: (req, _res, next) => load(req).then(() => next(), next),
    requireUser: (req, _res, next) =>
      load(req).then((session) => {
        const action = { label: 'Sign in', url: signInUrl };
        next(session ? undefined : new AppError('sign_in_required', { detail: 'Sign in and try again.', action }));
      }, next),
    secretOf: (req) => read(req, secretCookie),
    setSecret,

    async begin(req, res, account) {
      const { id, issuer, subject, name, email } = account;
      const data = {
        user: { id, issuer, subject, name, email, admin: false },
        csrfToken: randomToken(),
        app: 'bin-lookup-service',
        browser: describeBrowser(req.headers['user-agent']),
      };
      const sessionId = randomToken();
      await endSession(req);
      // This program reads none of the other fields of express-session.
      await records.write(sessionId, data as unknown as SessionData);
      res.cookie(sessionCookie, sessionId, options);
      setSecret(res, randomToken());
    },

    async end(req, res) {
      await endSession(req);
      res.clearCookie(sessionCookie, options).clearCookie(secretCookie, options);
    },
  };
}
