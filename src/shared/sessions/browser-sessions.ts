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
import { cookieName, cookieNames } from '../http/cookie-name.ts';
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

/**
 * A random value that only a cookie of this browser holds. A browser has several of them if it sent its first requests
 * at the same moment, such as those of restored tabs: one cookie for all would keep only the last secret (R64).
 */
export interface BrowserSecret {
  /** Part of the cookie's name. */
  id: string;
  secret: string;
  /** From before the last sign-in. Requests that other tabs began with it can still finish (R64). */
  isEarlier: boolean;
}

/** Share of the heap. */
const COOKIES_SHARE = 1 / 32;
/** Marks a secret from before the last sign-in in its cookie. */
const EARLIER = 'earlier';
/**
 * A pending request lasts ten minutes, and a spent one ten more. Without this, a browser in which nobody signs out would
 * have one more cookie after each sign-in.
 */
const EARLIER_MS = 1_200_000;
/** Longer Cookie headers are not cached, so that one entry stays small. */
const MAX_CACHED_CHARACTERS = 1_024;

/** Ten tabs that start at once have one each, and each may get another one when it signs in. */
const MAX_BROWSER_SECRETS = 20;

export const newBrowserSecret = (): BrowserSecret => ({
  id: randomBytes(4).toString('base64url'),
  secret: randomBytes(24).toString('base64url'),
  isEarlier: false,
});

export const sessionCookieName = (publicHref: string) => cookieName('gatehouse', publicHref);

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

  /** The secrets under which the browser's pending authorization requests are stored, oldest first; each is signed. */
  readBrowserSecrets(req: IncomingMessage): readonly BrowserSecret[];

  /** Replaces those of the request. Only the newest 20 stay, and those from before the last sign-in for 20 minutes. */
  setBrowserSecrets(req: IncomingMessage, res: Response, secrets: readonly BrowserSecret[]): void;

  /** At sign-out, this keeps pending callbacks from finishing (R103). */
  clearCookies(req: IncomingMessage, res: Response): void;
}

export function createBrowserSessions(parts: {
  records: Pick<SessionRecords, 'read' | 'readHashed' | 'cached' | 'listing' | 'write' | 'end' | 'readIdToken'>;
  secrets: readonly string[];
  publicUrl: Pick<PublicUrl, 'href' | 'secure'>;
}): BrowserSessions {
  const { records, publicUrl } = parts;
  let { secrets } = parts;
  const { href, secure } = publicUrl;
  const name = sessionCookieName(href);
  const { nameOf: nameOfSecret, idsIn: secretIdsIn } = cookieNames('gatehouse-tx', href);
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

  /** Browsers send older cookies first (RFC 6265, section 5.4). */
  const readBrowserSecrets = ({ headers }: IncomingMessage): BrowserSecret[] => {
    const cookies = parseCookies(headers.cookie ?? '');
    return secretIdsIn(cookies).flatMap((id) => {
      const [secret, mark] = unsigned(cookies[nameOfSecret(id)], secrets)?.split('.') ?? [];
      return secret === undefined ? [] : [{ id, secret, isEarlier: mark === EARLIER }];
    });
  };

  const setBrowserSecrets: BrowserSessions['setBrowserSecrets'] = (req, res, newSecrets) => {
    const sent = new Map(readBrowserSecrets(req).map((secret) => [secret.id, secret]));
    const stored = newSecrets.slice(-MAX_BROWSER_SECRETS);
    const storedIds = stored.map(({ id }) => id);
    for (const id of secretIdsIn(parseCookies(req.headers.cookie ?? '')))
      if (!storedIds.includes(id)) res.clearCookie(nameOfSecret(id), cookie);
    for (const { id, secret, isEarlier } of stored) {
      if (sent.get(id)?.isEarlier === isEarlier) continue;
      const [value, options] = isEarlier
        ? [`${secret}.${EARLIER}`, { ...cookie, maxAge: EARLIER_MS }]
        : [secret, cookie];
      res.cookie(nameOfSecret(id), sign(value, secrets[0] ?? ''), options);
    }
  };

  const clearCookies: BrowserSessions['clearCookies'] = (req, res) => {
    res.clearCookie(name, cookie);
    setBrowserSecrets(req, res, []);
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
      clearCookies(req, res);
    },

    readIdToken: (req) => records.readIdToken(req.sessionID),

    readBrowserSecrets,

    setBrowserSecrets,

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
