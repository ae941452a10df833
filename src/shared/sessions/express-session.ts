/**
 * Runs express-session for the routes that begin and end sessions. Its store is connect-redis, on our session records.
 */
import { RedisStore } from 'connect-redis';
import type { CookieOptions, Request, RequestHandler } from 'express';
import session, { type SessionData } from 'express-session';
import { dataOf, type SessionRecords } from './session-record.ts';

type Records = Pick<SessionRecords, 'read' | 'write' | 'end'>;

export function expressSession(parts: {
  records: Records;
  name: string;
  secrets: readonly string[];
  cookie: CookieOptions & { secure: boolean };
}) {
  const { records, name, cookie } = parts;
  const withSecrets = (secrets: readonly string[]): RequestHandler => {
    const store = new RecordStore(records);
    return session({ name, secret: [...secrets], store, resave: false, saveUninitialized: false, cookie });
  };
  let express = withSecrets(parts.secrets);
  const middleware: RequestHandler = (req, res, next) => {
    // express-session sets a Secure cookie only on requests that it considers https. Here only PUBLIC_URL decides.
    Object.defineProperty(req, 'secure', { value: cookie.secure, configurable: true });
    express(req, res, next);
  };
  return {
    middleware,
    /** Applies to later requests. */
    useSecrets(secrets: readonly string[]): void {
      express = withSecrets(secrets);
    },
  };
}

/** The property of a session that holds its JSON as last written. */
const SAVED = Symbol('saved');
/** The property that marks a new session as already listed. */
const LISTED = Symbol('listed');

class RecordStore extends RedisStore {
  private readonly listed: Set<string>;

  constructor(records: Records) {
    const listed = new Set<string>();
    // The records set every lifetime, and reading has already extended the idle time.
    super({ client: clientOver(records, listed), prefix: '', disableTTL: true, disableTouch: true });
    this.listed = listed;
  }

  /** express-session writes a new session again at the end of the response; this skips data that `save` has written. */
  override async set(id: string, data: SessionData, done: (error?: unknown) => void = () => undefined): Promise<void> {
    if (SAVED in data && data[SAVED] === JSON.stringify(data)) return done();
    if (LISTED in data) this.listed.add(id);
    await super.set(id, data, done);
  }
}

/**
 * Runs the Redis commands that connect-redis sends on our records, which may be in Redis or SQLite.
 * @param listed ids of sessions that are already listed and about to be written
 */
function clientOver(records: Records, listed: Set<string>): Pick<RedisStore['client'], 'get' | 'set' | 'del'> {
  return {
    async get(id) {
      const stored = await records.read(id, { extend: true });
      return stored ? JSON.stringify(dataOf(stored)) : null;
    },
    async set(id, data) {
      await records.write(id, JSON.parse(data) as SessionData, { isListed: listed.delete(id) });
      return 'OK';
    },
    async del(ids) {
      await Promise.all(ids.map(records.end));
      return ids.length;
    },
  };
}

// express-session's callbacks as promises, so that no response is sent before the store has written (R65).

export async function regenerate(req: Request): Promise<void> {
  // Without `createdAt` the session did not come from the store, so there is nothing to end.
  if (req.session.createdAt === undefined) req.sessionStore.generate(req);
  else await settled(req, (done) => req.session.regenerate(done));
}

/** @param options `isListed`: the session is new and already listed */
export async function save(req: Request, { isListed = false } = {}): Promise<void> {
  Reflect.deleteProperty(req.session, SAVED);
  // The marks are not enumerable, so they are not stored.
  if (isListed) Object.defineProperty(req.session, LISTED, { value: true, configurable: true });
  const value = JSON.stringify(req.session);
  await settled(req, (done) => req.session.save(done));
  Object.defineProperty(req.session, SAVED, { value, configurable: true });
}

/** Discards the session of the request and its unsaved changes. */
export const drop = (req: Request) => void Reflect.deleteProperty(req, 'session');

export const destroy = (req: Request) => settled(req, (done) => req.session.destroy(done));

function settled(req: Request, work: (done: (error?: unknown) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    work((error) => {
      if (!error) return resolve();
      // Otherwise express-session would try again at the end of the response, and set the cookie on an error response.
      drop(req);
      reject(error);
    });
  });
}
