/** Runs express-session for the routes that begin and end sessions; its store is connect-redis over our session records. */
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
    // express-session sets a Secure cookie only on requests that it takes for https. Here PUBLIC_URL alone decides.
    Object.defineProperty(req, 'secure', { value: cookie.secure, configurable: true });
    express(req, res, next);
  };
  return {
    middleware,
    /** For the requests to come. */
    useSecrets(secrets: readonly string[]): void {
      express = withSecrets(secrets);
    },
  };
}

/** The property of a session that holds its JSON as last written. */
const SAVED = Symbol('saved');
/** The property of a new session that is listed already. */
const LISTED = Symbol('listed');

class RecordStore extends RedisStore {
  private readonly listed: Set<string>;

  constructor(records: Records) {
    const listed = new Set<string>();
    // The records set every lifetime, and reading has already extended the idle time.
    super({ client: clientOver(records, listed), prefix: '', disableTTL: true, disableTouch: true });
    this.listed = listed;
  }

  /** express-session writes a new session again at the end of the response; skips what `save` has already written. */
  override async set(id: string, data: SessionData, done: (error?: unknown) => void = () => undefined): Promise<void> {
    if (SAVED in data && data[SAVED] === JSON.stringify(data)) return done();
    if (LISTED in data) this.listed.add(id);
    await super.set(id, data, done);
  }
}

/**
 * The Redis commands that connect-redis sends, carried out on our records, which may be in Redis or SQLite.
 * @param listed ids of sessions that are listed already and are about to be written
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

/** @param options `isListed`: the session is new, and listed already */
export async function save(req: Request, { isListed = false } = {}): Promise<void> {
  Reflect.deleteProperty(req.session, SAVED);
  // Neither is enumerable, so neither is stored.
  if (isListed) Object.defineProperty(req.session, LISTED, { value: true, configurable: true });
  const value = JSON.stringify(req.session);
  await settled(req, (done) => req.session.save(done));
  Object.defineProperty(req.session, SAVED, { value, configurable: true });
}

/** Forgets the session of the request, with what was not saved. */
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
