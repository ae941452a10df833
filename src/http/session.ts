/** Owns sessions towards browsers: their cookies, and express-session over our records. */
import type { IncomingMessage } from 'node:http';
import { parse as parseCookies } from 'cookie';
import { sign, unsign } from 'cookie-signature';
import type { CookieOptions, Request, RequestHandler } from 'express';
import session, { type SessionData, Store as SessionStore } from 'express-session';
import type { PublicUrl } from '../config-rules.ts';
import { rememberedOfEach } from '../remembered.ts';
import { hashOf } from '../storage/keys.ts';
import type { LiveSession } from './session-data.ts';
import type { SessionRecords } from './session-record.ts';

export interface Sessions {
  /** express-session, for the routes that begin and end sessions. */
  middleware: RequestHandler;
  /** The valid session of this request's cookie, by the same records and rules; one read of the store. */
  read(req: IncomingMessage, options: { extend: boolean }): Promise<LiveSession | undefined>;
  /** Who the user will be if the session is still valid, as far as this process remembers. Proves nothing, and reads nothing. */
  likelyUser(req: IncomingMessage): string | undefined;
  /** A value in a signed cookie of its own: the id under which a browser's pending authorization requests are kept. */
  readBrowserId(req: Request): string | undefined;
  browserIdCookie(browserId: string): { name: string; value: string; options: CookieOptions };
  /** For clearing it at sign-out. */
  cookie: { name: string; options: CookieOptions };
}

/** Of the memory. */
const COOKIES_SHARE = 1 / 32;
/** Longer headers are read anew each time, so that what is remembered stays small. */
const LONGEST_KNOWN = 1_024;

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

  // Only what was found to be signed by us: what others make up is checked each time, and takes nobody's place.
  const hashes = rememberedOfEach<string>(COOKIES_SHARE);
  const sessionHashOf = (cookies: string): string | undefined => {
    const known = hashes.get(cookies);
    if (known !== undefined) return known;
    const sessionId = unsigned(parseCookies(cookies)[name]?.replace(/^s:/, ''), secrets);
    if (sessionId === undefined) return undefined;
    const hash = hashOf(sessionId);
    if (cookies.length <= LONGEST_KNOWN) hashes.set(cookies, hash, cookies.length);
    return hash;
  };

  return {
    middleware: (req, res, next) => {
      // express-session sends a Secure cookie only over what it takes for https; PUBLIC_URL alone decides that.
      Object.defineProperty(req, 'secure', { value: publicUrl.secure, configurable: true });
      express(req, res, next);
    },
    read({ headers: { cookie } }, readOptions) {
      const hash = cookie === undefined ? undefined : sessionHashOf(cookie);
      return hash === undefined ? Promise.resolve(undefined) : records.readHashed(hash, readOptions);
    },
    likelyUser({ headers: { cookie } }) {
      const hash = cookie === undefined ? undefined : hashes.peek(cookie);
      return hash === undefined ? undefined : records.lastUserOf(hash);
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

/** Of a session: its text as it was written last. */
const SAVED = Symbol('saved');

/** express-session's store, as thin as it can be. */
class RecordStore extends SessionStore {
  readonly #records: SessionRecords;

  constructor(records: SessionRecords) {
    super();
    this.#records = records;
  }

  override get(id: string, done: (error: unknown, data?: SessionData | null) => void): void {
    // A copy: express-session makes its own of it.
    this.#records.read(id, { extend: true }).then((live) => done(null, live ? { ...live.data } : null), done);
  }

  /** express-session writes a new session once more at the end of the answer: what `save` has written is not written again. */
  override set(id: string, data: SessionData, done: (error?: unknown) => void = () => undefined): void {
    if (SAVED in data && data[SAVED] === JSON.stringify(data)) done();
    else this.#records.write(id, data).then(() => done(), done);
  }

  /** A session that the store never gave is in no store: there is nothing to end. */
  override regenerate(req: Request, done: (error?: unknown) => void): void {
    if (req.session?.createdAt !== undefined) {
      super.regenerate(req, done);
      return;
    }
    // express-session gives each store this method.
    (this as unknown as { generate(req: Request): void }).generate(req);
    done();
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
export async function save(req: Request): Promise<void> {
  Reflect.deleteProperty(req.session, SAVED);
  const value = JSON.stringify(req.session);
  await settled(req, (done) => req.session.save(done));
  // Not enumerable: it is no part of what is kept.
  Object.defineProperty(req.session, SAVED, { value, configurable: true });
}
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
