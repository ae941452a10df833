/** Owns sessions towards browsers: their cookies, and express-session over our records. */
import type { IncomingMessage } from 'node:http';
import { parse as parseCookies } from 'cookie';
import { sign, unsign } from 'cookie-signature';
import type { CookieOptions, Request, RequestHandler } from 'express';
import session, { type SessionData, Store as SessionStore } from 'express-session';
import type { PublicUrl } from '../config-rules.ts';
import type { LiveSession, SessionRecords } from './session-record.ts';

export interface Sessions {
  /** express-session, for the routes that begin and end sessions. */
  middleware: RequestHandler;
  /** The valid session of this request's cookie, by the same records and rules; one read of the store. */
  read(req: IncomingMessage, options: { extend: boolean }): Promise<LiveSession | undefined>;
  /** A value in a signed cookie of its own: the id under which a browser's pending authorization requests are kept. */
  readBrowserId(req: Request): string | undefined;
  browserIdCookie(browserId: string): { name: string; value: string; options: CookieOptions };
  /** For clearing it at sign-out. */
  cookie: { name: string; options: CookieOptions };
}

export function createSessions(parts: {
  records: SessionRecords;
  secrets: readonly string[];
  publicUrl: PublicUrl;
}): Sessions {
  const { records, secrets, publicUrl } = parts;
  const prefix = publicUrl.secure ? '__Host-' : '';
  const name = `${prefix}gatehouse`;
  const browserCookieName = `${prefix}gatehouse-tx`;
  const options: CookieOptions = { httpOnly: true, sameSite: 'lax', path: '/', secure: publicUrl.secure };

  const express = session({
    name,
    secret: [...secrets],
    store: new RecordStore(records),
    resave: false,
    saveUninitialized: false,
    cookie: { httpOnly: true, sameSite: 'lax', path: '/', secure: publicUrl.secure },
  });

  return {
    middleware: (req, res, next) => {
      // express-session sends a Secure cookie only over what it takes for https; PUBLIC_URL alone decides that.
      Object.defineProperty(req, 'secure', { value: publicUrl.secure, configurable: true });
      express(req, res, next);
    },
    async read(req, readOptions) {
      const sessionId = unsigned(cookieOf(req, name)?.replace(/^s:/, ''), secrets);
      return sessionId === undefined ? undefined : records.read(sessionId, readOptions);
    },
    readBrowserId: (req) => unsigned(cookieOf(req, browserCookieName), secrets),
    browserIdCookie: (browserId) => ({ name: browserCookieName, value: sign(browserId, secrets[0] ?? ''), options }),
    cookie: { name, options },
  };
}

function cookieOf(req: IncomingMessage, name: string): string | undefined {
  const header = req.headers.cookie;
  return header === undefined ? undefined : parseCookies(header)[name];
}

function unsigned(value: string | undefined, secrets: readonly string[]): string | undefined {
  if (value === undefined) return undefined;
  for (const secret of secrets) {
    const text = unsign(value, secret);
    if (text !== false && text !== '') return text;
  }
  return undefined;
}

/** express-session's store, as thin as it can be. */
class RecordStore extends SessionStore {
  readonly #records: SessionRecords;

  constructor(records: SessionRecords) {
    super();
    this.#records = records;
  }

  override get(id: string, done: (error: unknown, data?: SessionData | null) => void): void {
    this.#records.read(id, { extend: true }).then((live) => done(null, live?.data ?? null), done);
  }

  override set(id: string, data: SessionData, done: (error?: unknown) => void = () => undefined): void {
    this.#records.write(id, data).then(() => done(), done);
  }

  override destroy(id: string, done: (error?: unknown) => void = () => undefined): void {
    this.#records.end(id).then(() => done(), done);
  }

  /** Reading has already moved the idle time. */
  override touch(_id: string, _data: SessionData, done: () => void = () => undefined): void {
    done();
  }
}

/** express-session's callbacks as promises, so that nothing is answered before the store has written (R65). */
export const regenerate = (req: Request) => settled(req, (done) => req.session.regenerate(done));
export const save = (req: Request) => settled(req, (done) => req.session.save(done));
export const destroy = (req: Request) => settled(req, (done) => req.session.destroy(done));

function settled(req: Request, work: (done: (error?: unknown) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    work((error) => {
      if (!error) return resolve();
      // Otherwise express-session would try once more at the end of the answer, and hand the cookie out with an error.
      Reflect.deleteProperty(req, 'session');
      reject(error);
    });
  });
}
