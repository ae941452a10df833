/**
 * Browser sessions. express-session begins and ends them; reads use the signed cookie and the session records directly.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { parse as parseCookies } from 'cookie';
import { sign, unsign } from 'cookie-signature';
import type { Request, RequestHandler, Response } from 'express';
import type { SessionData } from 'express-session';
import type { PublicUrl } from '../config/rules.ts';
import { describeBrowser } from '../http/describe-browser.ts';
import { rememberedOfEach } from '../remembered.ts';
import { hashOf } from '../storage/keys.ts';
import { destroy, drop, expressSession, regenerate, save } from './express-session.ts';
import type { IssuedIdToken, Session } from './session.ts';
import type { SessionListing, SessionRecords } from './session-record.ts';

export type NewSession = Pick<SessionData, 'user' | 'app' | 'providerSession' | 'acr' | 'authTime' | 'idToken'>;

/** A session that has an id but is not written yet. */
export interface BeginningSession {
  /**
   * The writes that list the session, for the caller to make; called again if they are refused.
   * @throws AppError `sign_in_required` if the provider has already ended the session at its side
   */
  list(): Promise<Pick<SessionListing, 'ofUser' | 'live'>>;
  /** Writes the session. @throws AppError as `list` */
  save(): Promise<void>;
  /** Discards a session that is not saved: otherwise express-session would write it at the end of the response. */
  drop(): void;
}

/** Random values that only this browser's cookie holds. */
export interface BrowserSecrets {
  current: string;
  /** The secret before the last sign-in, so authorization requests that other tabs began with it can finish (R64). */
  earlier?: string | undefined;
}

/** Share of the heap. */
const COOKIES_SHARE = 1 / 32;
/** Longer Cookie headers are not cached, so that one entry stays small. */
const MAX_CACHED_CHARACTERS = 1_024;

/** @param secure whether Gatehouse is reached by HTTPS */
export const sessionCookieName = (secure: boolean) => (secure ? '__Host-gatehouse' : 'gatehouse');

export interface BrowserSessions {
  /** express-session, for the routes that begin and end sessions. */
  middleware: RequestHandler;

  /** Replaces the secrets: the first one signs, all verify. Cookies that a removed secret signed are refused. */
  useSecrets(newSecrets: readonly string[]): void;

  /** The valid session of the request's cookie, without express-session; one read of the store. */
  read(req: IncomingMessage, options: { extend: boolean }): Promise<Session | undefined>;

  /** The session as this process last read or wrote it. It may have ended since: never authorize with it. */
  cached(req: IncomingMessage): Session | undefined;

  /**
   * Begins a session with a new id, so an earlier id is useless (R17). Behind `middleware`.
   * The caller makes the writes of `list`, and then calls `save`.
   */
  begin(req: Request, session: NewSession): Promise<BeginningSession>;

  /** Ends the browser's session and clears its cookies. Behind `middleware`. */
  end(req: Request, res: Response): Promise<void>;

  /** The ID token that began the session, as `id_token_hint` for sign-out at the provider. Behind `middleware`. */
  readIdToken(req: Request): Promise<IssuedIdToken | undefined>;

  /** The secrets under which the browser's pending authorization requests are stored; from a separate signed cookie. */
  readBrowserSecrets(req: IncomingMessage): BrowserSecrets | undefined;

  setBrowserSecrets(res: Response, secrets: BrowserSecrets): void;

  /** At sign-out, this keeps pending callbacks from finishing (R103). */
  clearCookies(res: Response): void;
}

export function createBrowserSessions(parts: {
  records: Pick<SessionRecords, 'read' | 'readHashed' | 'cached' | 'listing' | 'write' | 'end' | 'readIdToken'>;
  secrets: readonly string[];
  publicUrl: Pick<PublicUrl, 'secure'>;
}): BrowserSessions {
  const { records, publicUrl } = parts;
  let { secrets } = parts;
  const { secure } = publicUrl;
  const name = sessionCookieName(secure);
  const browserCookieName = `${name}-tx`;
  const cookie = { httpOnly: true, sameSite: 'lax', path: '/', secure } as const;
  const express = expressSession({ records, name, secrets, cookie });

  // Caches only headers whose signature is valid: forged ones must not evict them.
  const emptyCache = () => rememberedOfEach<string>(COOKIES_SHARE);
  let hashes = emptyCache();
  const sessionHashOf = (cookies: string): string | undefined => {
    const cached = hashes.get(cookies);
    if (cached !== undefined) return cached;
    const value = parseCookies(cookies)[name];
    // The only form that express-session writes and accepts.
    const sessionId = value?.startsWith('s:') ? unsigned(value.slice(2), secrets) : undefined;
    if (sessionId === undefined) return undefined;
    const hash = hashOf(sessionId);
    if (cookies.length <= MAX_CACHED_CHARACTERS) hashes.set(cookies, hash, cookies.length);
    return hash;
  };

  const clearCookies = (res: Response): void => {
    res.clearCookie(name, cookie).clearCookie(browserCookieName, cookie);
  };

  return {
    middleware: express.middleware,

    useSecrets(newSecrets) {
      secrets = newSecrets;
      hashes = emptyCache();
      express.useSecrets(newSecrets);
    },

    read({ headers }, options) {
      const hash = headers.cookie === undefined ? undefined : sessionHashOf(headers.cookie);
      return hash === undefined ? Promise.resolve(undefined) : records.readHashed(hash, options);
    },

    cached({ headers }) {
      const hash = headers.cookie === undefined ? undefined : hashes.peek(headers.cookie);
      return hash === undefined ? undefined : records.cached(hash);
    },

    async begin(req, session) {
      await regenerate(req);
      Object.assign(req.session, session, {
        browser: describeBrowser(req.headers['user-agent']),
        address: req.context.address,
        csrfToken: randomBytes(32).toString('base64url'),
      });
      let ofProvider = Promise.resolve();
      return {
        async list() {
          const listing = await records.listing(req.sessionID, session);
          ofProvider = listing.ofProvider;
          return listing;
        },
        async save() {
          await ofProvider;
          await save(req, { isListed: true });
        },
        drop: () => drop(req),
      };
    },

    async end(req, res) {
      await destroy(req);
      clearCookies(res);
    },

    readIdToken: (req) => records.readIdToken(req.sessionID),

    readBrowserSecrets({ headers }) {
      const value = headers.cookie === undefined ? undefined : parseCookies(headers.cookie)[browserCookieName];
      const [current, earlier] = unsigned(value, secrets)?.split('.') ?? [];
      return current === undefined ? undefined : { current, earlier };
    },

    setBrowserSecrets(res, { current, earlier }) {
      const text = earlier === undefined ? current : `${current}.${earlier}`;
      res.cookie(browserCookieName, sign(text, secrets[0] ?? ''), cookie);
    },

    clearCookies,
  };
}

function unsigned(value: string | undefined, secrets: readonly string[]): string | undefined {
  if (value === undefined) return undefined;
  for (const secret of secrets) {
    const text = unsign(value, secret);
    if (text !== false && text !== '') return text;
  }
  return undefined;
}
