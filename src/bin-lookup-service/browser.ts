/** The cookies of the account pages: a session, and random values that bind sign-ins to the browser. */
import type { IncomingMessage } from 'node:http';
import { parse as parseCookies } from 'cookie';
import type { CookieOptions, RequestHandler, Response } from 'express';
import type { SessionData } from 'express-session';
import type { PublicUrl } from '../shared/config/rules.ts';
import { AppError } from '../shared/errors.ts';
import { cookieName, cookieNames } from '../shared/http/cookie-name.ts';
import { describeBrowser } from '../shared/http/describe-browser.ts';
import type { Session } from '../shared/sessions/session.ts';
import type { SessionRecords } from '../shared/sessions/session-record.ts';
import { hashOf } from '../shared/storage/keys.ts';
import type { Account } from './accounts.ts';

export interface Browsers {
  /** Adds the session of the browser to the request, if there is one. */
  loadSession: RequestHandler;
  /** Refuses a request without a session with `sign_in_required`. */
  requireUser: RequestHandler;
  /**
   * Returns the random values from the browser's cookies, oldest first. It has several if it sent its first requests at
   * the same moment, such as those of restored tabs: one cookie for all would keep only the last value (R64).
   */
  secretsOf(req: IncomingMessage): readonly string[];
  addSecret(res: Response, secret: string): void;
  /**
   * Begins a new session and replaces the random values, so that the earlier session and values are useless (R17, R103).
   */
  begin(req: IncomingMessage, res: Response, account: Account): Promise<void>;
  /** Clears all cookies, so that a pending callback cannot finish afterwards (R103). */
  end(req: IncomingMessage, res: Response): Promise<void>;
}

const TOKEN_FORM = /^[A-Za-z0-9_-]{43}$/;
/** A callback looks for its sign-in under each of them. */
const MAX_SECRETS = 20;

/** @param parts `randomToken`: 32 random bytes in base64url; `signInUrl`: starts a sign-in */
export function createBrowsers(parts: {
  records: SessionRecords;
  publicUrl: Pick<PublicUrl, 'href' | 'secure'>;
  randomToken: () => string;
  signInUrl: string;
}): Browsers {
  const { records, publicUrl, randomToken, signInUrl } = parts;
  const sessionCookie = cookieName('bin-lookup-service', publicUrl.href);
  const secretCookies = cookieNames('bin-lookup-service-tx', publicUrl.href);
  const options: CookieOptions = { httpOnly: true, sameSite: 'lax', path: '/', secure: publicUrl.secure };
  const cookiesOf = ({ headers }: IncomingMessage) => parseCookies(headers.cookie ?? '');
  const isToken = (value: string | undefined): value is string => value !== undefined && TOKEN_FORM.test(value);
  const sessionIdOf = (req: IncomingMessage): string | undefined => {
    const value = cookiesOf(req)[sessionCookie];
    return isToken(value) ? value : undefined;
  };

  const load = async (req: IncomingMessage): Promise<Session | undefined> => {
    const id = sessionIdOf(req);
    req.context.session = id === undefined ? undefined : await records.read(id, { extend: true });
    return req.context.session;
  };

  const endSession = async (req: IncomingMessage) => {
    const id = sessionIdOf(req);
    if (id !== undefined) await records.end(id);
  };

  const addSecret = (res: Response, secret: string) =>
    void res.cookie(secretCookies.nameOf(hashOf(secret).slice(0, 6)), secret, options);
  const clearSecrets = (req: IncomingMessage, res: Response) => {
    for (const id of secretCookies.idsIn(cookiesOf(req))) res.clearCookie(secretCookies.nameOf(id), options);
  };

  return {
    loadSession: (req, _res, next) => load(req).then(() => next(), next),
    requireUser: (req, _res, next) =>
      load(req).then((session) => {
        const action = { label: 'Sign in', url: signInUrl };
        next(session ? undefined : new AppError('sign_in_required', { detail: 'Sign in and try again.', action }));
      }, next),
    secretsOf(req) {
      const cookies = cookiesOf(req);
      const values = secretCookies.idsIn(cookies).map((id) => cookies[secretCookies.nameOf(id)]);
      return values.filter(isToken).slice(-MAX_SECRETS);
    },
    addSecret,

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
      clearSecrets(req, res);
      addSecret(res, randomToken());
    },

    async end(req, res) {
      await endSession(req);
      res.clearCookie(sessionCookie, options);
      clearSecrets(req, res);
    },
  };
}
