/** Sessions towards browsers over express-session: what is written, when, and for which cookie. */
import { sign } from 'cookie-signature';
import express, { type Request, type Response } from 'express';
import type { SessionData } from 'express-session';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { parsePublicUrl } from '../../../src/shared/config/rules.ts';
import {
  type BrowserSecrets,
  type BrowserSessions,
  createBrowserSessions,
} from '../../../src/shared/sessions/browser-sessions.ts';
import { destroy, regenerate, save } from '../../../src/shared/sessions/express-session.ts';
import type { Session } from '../../../src/shared/sessions/session.ts';
import type { SessionRecords } from '../../../src/shared/sessions/session-record.ts';
import { hashOf } from '../../../src/shared/storage/keys.ts';
import { ask } from '../../support/ask.ts';
import { type Served, serve } from '../http/serve.ts';
import { USER } from './user.ts';

const SECRETS = ['the first secret of this test, which signs', 'the second one, which is on its way out'];

const sessionWith = (data: SessionData): Session => ({ ...data, createdAt: 1, expiresAt: 2, seenAt: 1, ref: 'ref' });

/** What was asked of the records, in order. */
let asked: string[];
let kept: Map<string, SessionData>;
let failure: Error | undefined;
const records = {
  async read(id, { extend }) {
    asked.push(`read ${extend ? 'and extend' : ''}`);
    const data = kept.get(id);
    return data && sessionWith(data);
  },
  async readHashed(hash, { extend }) {
    asked.push(`read hashed ${extend ? 'and extend' : ''}`);
    const [, data] = [...kept].find(([id]) => hashOf(id) === hash) ?? [];
    return data && sessionWith(data);
  },
  cached(hash) {
    const [, data] = [...kept].find(([id]) => hashOf(id) === hash) ?? [];
    return data && sessionWith(data);
  },
  listing: async (_id, { user }) => ({
    ofUser: { put: user.id, value: '' },
    live: { index: 'live', add: user.id, score: 0 },
    ofProvider: Promise.resolve(),
  }),
  async write(id, data) {
    asked.push('write');
    if (failure) throw failure;
    kept.set(id, JSON.parse(JSON.stringify(data)));
  },
  async end(id) {
    asked.push('end');
    if (failure) throw failure;
    kept.delete(id);
  },
  readIdToken: async () => undefined,
  endHashed: async () => undefined,
  isStored: async () => true,
} satisfies SessionRecords;

const sessionsAt = (href: string, secrets = SECRETS): BrowserSessions => {
  const { publicUrl } = parsePublicUrl(href);
  if (!publicUrl) throw new Error(`${href} is no PUBLIC_URL.`);
  return createBrowserSessions({ records, secrets, publicUrl });
};

let sessions: BrowserSessions;
let served: Served;
/** What the next request does with its session. */
let work: (req: Request, res: Response) => unknown;
beforeAll(async () => {
  const app = express();
  app.use((req, res, next) => sessions.middleware(req, res, next));
  app.use(async (req, res) => {
    try {
      await work(req, res);
      res.send('done');
    } catch (error) {
      res.status(500).send(String(error));
    }
  });
  served = await serve(app);
});
afterAll(() => served.close());
beforeEach(() => {
  [asked, kept, failure] = [[], new Map(), undefined];
  sessions = sessionsAt('http://127.0.0.1');
});

const call = async (how: typeof work, cookie?: string) => {
  work = how;
  const { status, headers, body } = await ask(served.url, { headers: cookie === undefined ? {} : { cookie } });
  const [line] = headers['set-cookie'] ?? [];
  return { status, body, line, cookie: line?.split(';')[0] };
};
const signIn = async (req: Request) => {
  await regenerate(req);
  Object.assign(req.session, { user: USER, app: 'platform' });
  await save(req);
};
const reader = (cookie?: string) => ({ headers: cookie === undefined ? {} : { cookie } }) as Request;
const textOf = (cookie: string) => decodeURIComponent(cookie.split('=')[1] ?? '');

describe('what is written', () => {
  test('is a new session, once, before its cookie is handed out', async () => {
    const { line, cookie } = await call(signIn);
    expect(asked).toEqual(['write']);
    expect(line).toMatch(/^gatehouse=s%3A[^;]+; Path=\/; HttpOnly; SameSite=Lax$/);
    expect([...kept.values()]).toMatchObject([{ user: USER, app: 'platform' }]);
    expect((await sessions.read(reader(cookie), { extend: true }))?.user).toEqual(USER);
    expect(asked).toEqual(['write', 'read hashed and extend']);
    await sessions.read(reader(cookie), { extend: false });
    expect(asked.at(-1)).toBe('read hashed ');
  });

  test('is each change that is saved, and what changed after the last save', async () => {
    await call(async (req) => {
      await signIn(req);
      req.session.app = 'second';
      await save(req);
    });
    expect([asked, [...kept.values()][0]?.app]).toEqual([['write', 'write'], 'second']);
    asked = [];
    await call(async (req) => {
      await signIn(req);
      req.session.app = 'third';
    });
    expect([asked, [...kept.values()][1]?.app]).toEqual([['write', 'write'], 'third']);
  });

  test('is nothing for whoever brings no session and gets none, or only reads', async () => {
    expect((await call(() => undefined)).line).toBeUndefined();
    expect(asked).toEqual([]);
    const { cookie } = await call(signIn);
    asked = [];
    const seen = await call((req, res) => void res.set('X-User', req.session.user?.id), cookie);
    expect([seen.status, seen.line, asked]).toEqual([200, undefined, ['read and extend']]);
  });

  test('R65 and where that fails nothing is handed out, and nothing is tried once more', async () => {
    failure = new Error('no store');
    const { status, body, line } = await call(signIn);
    expect([status, body, line, asked]).toEqual([500, 'Error: no store', undefined, ['write']]);
  });

  test('R65 a failure of the store at reading is one of the request', async () => {
    const { cookie } = await call(signIn);
    const read = records.read;
    records.read = async () => {
      throw new Error('no store');
    };
    const { status, body } = await call(() => 'not reached', cookie);
    records.read = read;
    expect([status, body.includes('done')]).toEqual([500, false]);
  });
});

describe('what ends', () => {
  test('is the session that was there before, and nothing where there was none', async () => {
    const { cookie } = await call(signIn);
    asked = [];
    const again = await call(signIn, cookie);
    expect(asked).toEqual(['read and extend', 'end', 'write']);
    expect(again.cookie).not.toBe(cookie);
    expect(kept.size).toBe(1);
  });

  test('is a session that is destroyed; where the store fails, the caller hears of it', async () => {
    const { cookie } = await call(signIn);
    failure = new Error('no store');
    expect(await call(destroy, cookie)).toMatchObject({ status: 500, body: 'Error: no store' });
    failure = undefined;
    expect(await call(destroy, cookie)).toMatchObject({ status: 200, line: undefined });
    expect(kept.size).toBe(0);
    expect(await sessions.read(reader(cookie), { extend: false })).toBeUndefined();
  });
});

describe('which cookie counts', () => {
  test('one that any of the secrets has signed, and no other', async () => {
    const { cookie = '' } = await call(signIn);
    const id = textOf(cookie).replace(/^s:/, '').split('.')[0] ?? '';
    const read = async (header?: string) => (await sessions.read(reader(header), { extend: false }))?.user?.id;
    const signed = (secret: string, of = id) => `gatehouse=${encodeURIComponent(`s:${sign(of, secret)}`)}`;
    expect(await read(cookie)).toBe('u1');
    expect(await read(`a=b; ${cookie}; c=d`)).toBe('u1');
    expect(await read(signed(SECRETS[1] ?? ''))).toBe('u1');
    asked = [];
    expect(await read(signed('another secret'))).toBeUndefined();
    expect(await read(signed(SECRETS[0] ?? '', ''))).toBeUndefined();
    expect(await read(`gatehouse=s%3A${id}`)).toBeUndefined();
    // What express-session would not read: a sign-out would leave such a session alive.
    for (const prefix of ['', 'x', 'xs%3A']) {
      expect(await read(cookie.replace('=s%3A', `=${prefix}`)), prefix).toBeUndefined();
    }
    expect(await read(cookie.replace('gatehouse=', 'other='))).toBeUndefined();
    expect(await read(undefined)).toBeUndefined();
    // The store is not asked for what nobody signed.
    expect(asked).toEqual([]);
  });

  test('who it will most likely be is known without the store, from the second look on', async () => {
    const { cookie = '' } = await call(signIn);
    expect(sessions.cached(reader(cookie))).toBeUndefined();
    await sessions.read(reader(cookie), { extend: false });
    asked = [];
    expect(sessions.cached(reader(cookie))?.user.id).toBe('u1');
    expect(sessions.cached(reader('a=b'))).toBeUndefined();
    expect(sessions.cached(reader())).toBeUndefined();
    expect(asked).toEqual([]);
  });

  test('of a very long header nothing is remembered', async () => {
    const { cookie = '' } = await call(signIn);
    const padded = (length: number) => `${cookie}; x=${'y'.repeat(length - cookie.length - 4)}`;
    for (const length of [1_024, 1_025]) {
      expect((await sessions.read(reader(padded(length)), { extend: false }))?.user?.id).toBe('u1');
    }
    expect(sessions.cached(reader(padded(1_024)))?.user.id).toBe('u1');
    expect(sessions.cached(reader(padded(1_025)))).toBeUndefined();
  });
});

/** The cookie that holds these secrets. */
function secretCookieOf(of: BrowserSessions, pair: BrowserSecrets) {
  const cookie = vi.fn();
  of.setBrowserSecrets({ cookie } as unknown as Response, pair);
  const [name, value, options] = cookie.mock.calls[0] as [string, string, object];
  return { name, value, options };
}

describe('the browser’s secret', () => {
  test('comes back from the cookie that was made for it, and from no other', () => {
    const { name, value, options } = secretCookieOf(sessions, { current: 'browser-1' });
    expect([name, options]).toEqual(['gatehouse-tx', { httpOnly: true, sameSite: 'lax', path: '/', secure: false }]);
    const read = (of: BrowserSessions, header?: string) => of.readBrowserSecrets(reader(header));
    expect(read(sessions, `a=b; ${name}=${encodeURIComponent(value)}`)).toEqual({ current: 'browser-1' });
    const rotated = sessionsAt('http://127.0.0.1', ['a fresh secret of this test', ...SECRETS]);
    expect(read(rotated, `${name}=${encodeURIComponent(value)}`)).toEqual({ current: 'browser-1' });
    const pair = { current: 'browser-2', earlier: 'browser-1' };
    expect(read(sessions, `${name}=${encodeURIComponent(secretCookieOf(sessions, pair).value)}`)).toEqual(pair);
    expect(read(sessionsAt('http://127.0.0.1', ['a fresh secret']), `${name}=${value}`)).toBeUndefined();
    expect(read(sessions, `gatehouse=${value}`)).toBeUndefined();
    expect(read(sessions)).toBeUndefined();
  });
});

test('by https the cookies are Secure and the host’s own, though the listener is plain', async () => {
  sessions = sessionsAt('https://gatehouse.test');
  const { line } = await call(signIn);
  expect(line).toMatch(/^__Host-gatehouse=s%3A[^;]+; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  const options = { httpOnly: true, sameSite: 'lax', path: '/', secure: true };
  expect(secretCookieOf(sessions, { current: 'b' })).toMatchObject({ name: '__Host-gatehouse-tx', options });
});
