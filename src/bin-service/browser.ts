/** Owns what a browser of the account page holds: a session, and a random value that its sign-ins are bound to. */
import type { IncomingMessage } from 'node:http';
import { parse as parseCookies } from 'cookie';
import type { CookieOptions, RequestHandler, Response } from 'express';
import type { SessionData } from 'express-session';
import { AppError } from '../errors.ts';
import { browserWords } from '../http/browser-words.ts';
import type { Viewer } from '../http/session-data.ts';
import type { SessionRecords } from '../http/session-record.ts';
import type { Account } from './accounts.ts';

export interface Browsers {
  /** Notes who is signed in, if anybody. */
  anyone: RequestHandler;
  /** Refuses with `sign_in_required`. */
  user: RequestHandler;
  /** The value in the browser's cookie. */
  secretOf(req: IncomingMessage): string | undefined;
  giveSecret(res: Response, secret: string): void;
  /** Always a new session: whoever held the browser before holds nothing of it. */
  begin(req: IncomingMessage, res: Response, account: Account): Promise<void>;
  end(req: IncomingMessage, res: Response): Promise<void>;
}

const FORM = /^[A-Za-z0-9_-]{43}$/;
const SESSION = 'bin-service';
const SECRET = 'bin-service-tx';

/** @param parts `randomToken`: 32 random bytes in base64url; `signInUrl`: where somebody without a session is sent */
export function createBrowsers(parts: {
  records: SessionRecords;
  secure: boolean;
  randomToken: () => string;
  signInUrl: string;
}): Browsers {
  const { records, secure, randomToken, signInUrl } = parts;
  const prefix = secure ? '__Host-' : '';
  const options: CookieOptions = { httpOnly: true, sameSite: 'lax', path: '/', secure };
  const read = (req: IncomingMessage, name: string): string | undefined => {
    const value = req.headers.cookie && parseCookies(req.headers.cookie)[`${prefix}${name}`];
    return value && FORM.test(value) ? value : undefined;
  };

  const note = async (req: IncomingMessage): Promise<Viewer | undefined> => {
    const id = read(req, SESSION);
    const live = id === undefined ? undefined : await records.read(id, { extend: true });
    req.context.viewer = live?.viewer;
    return req.context.viewer;
  };

  const endSession = async (req: IncomingMessage) => {
    const id = read(req, SESSION);
    if (id !== undefined) await records.end(id);
  };

  return {
    anyone: (req, _res, next) => note(req).then(() => next(), next),
    user: (req, _res, next) =>
      note(req).then((viewer) => {
        const step = { label: 'Sign in', url: signInUrl };
        next(viewer ? undefined : new AppError('sign_in_required', { detail: 'Sign in and try again.', step }));
      }, next),
    secretOf: (req) => read(req, SECRET),
    giveSecret: (res, secret) => void res.cookie(`${prefix}${SECRET}`, secret, options),

    async begin(req, res, account) {
      const { id, issuer, subject, name, email } = account;
      const data = {
        user: { id, issuer, subject, name, email, admin: false },
        csrfToken: randomToken(),
        app: SESSION,
        browser: browserWords(req.headers['user-agent']),
      };
      const sessionId = randomToken();
      await endSession(req);
      // What else express-session keeps in its records, nobody here reads.
      await records.write(sessionId, data as unknown as SessionData);
      res.cookie(`${prefix}${SESSION}`, sessionId, options);
    },

    async end(req, res) {
      await endSession(req);
      res.clearCookie(`${prefix}${SESSION}`, options);
    },
  };
}
