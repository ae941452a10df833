/** Browser sessions with express-session: their writes and their cookies. */
import { sign } from 'cookie-signature';
import express, { type Request, type Response } from 'express';
import type { SessionData } from 'express-session';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parsePublicUrl } from '../../../src/shared/config/rules.ts';
import {
  type BrowserSecret,
  type BrowserSessions,
  createBrowserSessions,
} from '../../../src/shared/sessions/browser-sessions.ts';
import { destroy, regenerate, save } from '../../../src/shared/sessions/express-session.ts';
import type { Session } from '../../../src/shared/sessions/session.ts';
import type { SessionRecords } from '../../../src/shared/sessions/session-record.ts';
import { hashOf } from '../../../src/shared/storage/keys.ts';
import { sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from '../http/serve.ts';
import { USER } from './user.ts';

const SECRETS = ['the first secret of this test, which signs', 'the second secret of this test, which verifies'];

const sessionWith = (data: SessionData): Session => ({ ...data, createdAt: 1, expiresAt: 2, seenAt: 1, ref: 'ref' });

/** The calls of the records, in order. */
let calls: string[];
let stored: Map<string, SessionData>;
let writeFailure: Error | undefined;
const records = {
  async read(id, { extend }) {
    calls.push(`read ${extend ? 'and extend' : ''}`);
    const data = stored.get(id);
    return data && sessionWith(data);
  },
  async readHashed(hash, { extend }) {
    calls.push(`read hashed ${extend ? 'and extend' : ''}`);
    const [, data] = [...stored].find(([id]) => hashOf(id) === hash) ?? [];
    return data && sessionWith(data);
  },
  cached(hash) {
    const [, data] = [...stored].find(([id]) => hashOf(id) === hash) ?? [];
    return data && sessionWith(data);
  },
  listing: async (_id, { user }) => ({
    ofUser: { put: user.id, value: '' },
    live: { index: 'live', add: user.id, score: 0 },
    ofProvider: Promise.resolve(),
  }),
  async write(id, data) {
    calls.push('write');
    if (writeFailure) throw writeFailure;
    stored.set(id, JSON.parse(JSON.stringify(data)));
  },
  async end(id) {
    calls.push('end');
    if (writeFailure) throw writeFailure;
    stored.delete(id);
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
/** The handler of the next request. */
let handleRequest: (req: Request, res: Response) => unknown;
beforeAll(async () => {
  const app = express();
  app.use((req, res, next) => sessions.middleware(req, res, next));
  app.use(async (req, res) => {
    try {
      await handleRequest(req, res);
      res.send('done');
    } catch (error) {
      res.status(500).send(String(error));
    }
  });
  served = await serve(app);
});
afterAll(() => served.close());
beforeEach(() => {
  calls = [];
  stored = new Map();
  writeFailure = undefined;
  sessions = sessionsAt('http://127.0.0.1');
});

const call = async (handler: typeof handleRequest, cookie?: string) => {
  handleRequest = handler;
  const { status, headers, body } = await sendRequest(served.url, { headers: cookie === undefined ? {} : { cookie } });
  const [line] = headers['set-cookie'] ?? [];
  return { status, body, line, cookie: line?.split(';')[0] };
};
const signIn = async (req: Request) => {
  await regenerate(req);
  Object.assign(req.session, { user: USER, app: 'platform' });
  await save(req);
};
const requestWith = (cookie?: string) => ({ headers: cookie === undefined ? {} : { cookie } }) as Request;
const textOf = (cookie: string) => decodeURIComponent(cookie.split('=')[1] ?? '');

describe('writes', () => {
  test('a new session once, before its cookie is sent', async () => {
    const { line, cookie } = await call(signIn);
    expect(calls).toEqual(['write']);
    expect(line).toMatch(/^gatehouse=s%3A[^;]+; Path=\/; HttpOnly; SameSite=Lax$/);
    expect([...stored.values()]).toMatchObject([{ user: USER, app: 'platform' }]);
    expect((await sessions.read(requestWith(cookie), { extend: true }))?.user).toEqual(USER);
    expect(calls).toEqual(['write', 'read hashed and extend']);

    await sessions.read(requestWith(cookie), { extend: false });
    expect(calls.at(-1)).toBe('read hashed ');
  });

  test('each saved change, and changes after the last save', async () => {
    await call(async (req) => {
      await signIn(req);
      req.session.app = 'second';
      await save(req);
    });
    expect([calls, [...stored.values()][0]?.app]).toEqual([['write', 'write'], 'second']);

    calls = [];
    await call(async (req) => {
      await signIn(req);
      req.session.app = 'third';
    });
    expect([calls, [...stored.values()][1]?.app]).toEqual([['write', 'write'], 'third']);
  });

  test('nothing without a session, or for a request that only reads it', async () => {
    expect((await call(() => undefined)).line).toBeUndefined();
    expect(calls).toEqual([]);

    const { cookie } = await call(signIn);
    calls = [];
    const response = await call((req, res) => void res.set('X-User', req.session.user?.id), cookie);
    expect([response.status, response.line, calls]).toEqual([200, undefined, ['read and extend']]);
  });

  test('R65 sends no cookie and does not retry if the write fails', async () => {
    writeFailure = new Error('no store');
    const { status, body, line } = await call(signIn);
    expect([status, body, line, calls]).toEqual([500, 'Error: no store', undefined, ['write']]);
  });

  test('R65 fails the request if the session cannot be read', async () => {
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

describe('ends', () => {
  test('the previous session at sign-in', async () => {
    const { cookie } = await call(signIn);
    calls = [];
    const second = await call(signIn, cookie);
    expect(calls).toEqual(['read and extend', 'end', 'write']);
    expect(second.cookie).not.toBe(cookie);
    expect(stored.size).toBe(1);
  });

  test('a destroyed session, and reports a failure of the store', async () => {
    const { cookie } = await call(signIn);
    writeFailure = new Error('no store');
    expect(await call(destroy, cookie)).toMatchObject({ status: 500, body: 'Error: no store' });

    writeFailure = undefined;
    expect(await call(destroy, cookie)).toMatchObject({ status: 200, line: undefined });
    expect(stored.size).toBe(0);
    expect(await sessions.read(requestWith(cookie), { extend: false })).toBeUndefined();
  });
});

describe('the session cookie', () => {
  test('is accepted only if one of the secrets signed it', async () => {
    const { cookie = '' } = await call(signIn);
    const id = textOf(cookie).replace(/^s:/, '').split('.')[0] ?? '';
    const read = async (header?: string) => (await sessions.read(requestWith(header), { extend: false }))?.user?.id;
    const signedCookie = (secret: string, of = id) => `gatehouse=${encodeURIComponent(`s:${sign(of, secret)}`)}`;
    expect(await read(cookie)).toBe('u1');
    expect(await read(`a=b; ${cookie}; c=d`)).toBe('u1');
    expect(await read(signedCookie(SECRETS[1] ?? ''))).toBe('u1');

    calls = [];
    expect(await read(signedCookie('another secret'))).toBeUndefined();
    expect(await read(signedCookie(SECRETS[0] ?? '', ''))).toBeUndefined();
    expect(await read(`gatehouse=s%3A${id}`)).toBeUndefined();

    // Forms that express-session does not read: a sign-out would not end such a session.
    for (const prefix of ['', 'x', 'xs%3A']) {
      expect(await read(cookie.replace('=s%3A', `=${prefix}`)), prefix).toBeUndefined();
    }
    expect(await read(cookie.replace('gatehouse=', 'other='))).toBeUndefined();
    expect(await read(undefined)).toBeUndefined();
    // The store is not read without a valid signature.
    expect(calls).toEqual([]);
  });

  test('gives the cached session without the store after the first read', async () => {
    const { cookie = '' } = await call(signIn);
    expect(sessions.cached(requestWith(cookie))).toBeUndefined();

    await sessions.read(requestWith(cookie), { extend: false });
    calls = [];
    expect(sessions.cached(requestWith(cookie))?.user.id).toBe('u1');
    expect(sessions.cached(requestWith('a=b'))).toBeUndefined();
    expect(sessions.cached(requestWith())).toBeUndefined();
    expect(calls).toEqual([]);
  });

  test('is not cached from a very long header', async () => {
    const { cookie = '' } = await call(signIn);
    const paddedCookie = (length: number) => `${cookie}; x=${'y'.repeat(length - cookie.length - 4)}`;
    for (const length of [1_024, 1_025]) {
      expect((await sessions.read(requestWith(paddedCookie(length)), { extend: false }))?.user?.id).toBe('u1');
    }
    expect(sessions.cached(requestWith(paddedCookie(1_024)))?.user.id).toBe('u1');
    expect(sessions.cached(requestWith(paddedCookie(1_025)))).toBeUndefined();
  });
});

/** The calls that set or clear cookies for these secrets, after a request with this Cookie header. */
function secretCookiesAfter(browserSessions: BrowserSessions, secrets: readonly BrowserSecret[], header?: string) {
  const set = new Map<string, string>();
  const cleared: string[] = [];
  const options: object[] = [];
  const res = {
    cookie(name: string, value: string, cookieOptions: object) {
      set.set(name, value);
      options.push(cookieOptions);
    },
    clearCookie: (name: string) => void cleared.push(name),
  };
  browserSessions.setBrowserSecrets(requestWith(header), res as unknown as Response, secrets);
  return { set, cleared, options };
}
const headerOf = (cookies: Iterable<[string, string]>) =>
  [...cookies].map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('; ');
const secretNo = (n: number, isEarlier = false): BrowserSecret => ({
  ...{ id: `secre${n}`, secret: `browser-${n}`, isEarlier },
});

describe('the browser’s secrets', () => {
  test('are read only from cookies that are signed for them', () => {
    const secrets = [secretNo(1, true), secretNo(2)];
    const { set, options } = secretCookiesAfter(sessions, secrets);
    expect([...set.keys()]).toEqual(['gatehouse-tx-secre1', 'gatehouse-tx-secre2']);
    const usual = { httpOnly: true, sameSite: 'lax', path: '/', secure: false };
    expect(options).toEqual([{ ...usual, maxAge: 1_200_000 }, usual]);

    const read = (browserSessions: BrowserSessions, header?: string) =>
      browserSessions.readBrowserSecrets(requestWith(header));
    expect(read(sessions, `a=b; ${headerOf(set)}`)).toEqual(secrets);
    const rotated = sessionsAt('http://127.0.0.1', ['a fresh secret of this test', ...SECRETS]);
    expect(read(rotated, headerOf(set))).toEqual(secrets);
    expect(read(sessionsAt('http://127.0.0.1', ['a fresh secret']), headerOf(set))).toEqual([]);
    expect(read(sessionsAt('http://127.0.0.1:3000'), headerOf(set))).toEqual([]);
    expect(read(sessions, `gatehouse=${set.get('gatehouse-tx-secre2')}`)).toEqual([]);
    expect(read(sessions)).toEqual([]);
  });

  test('R64 stay in their cookies until they change; only the newest 20 stay', () => {
    const { set } = secretCookiesAfter(sessions, [secretNo(1), secretNo(2)]);
    const unchanged = secretCookiesAfter(sessions, [secretNo(1), secretNo(2)], headerOf(set));
    expect([unchanged.set.size, unchanged.cleared]).toEqual([0, []]);
    const changed = secretCookiesAfter(sessions, [secretNo(2, true), secretNo(3)], headerOf(set));
    expect([[...changed.set.keys()], changed.cleared]).toEqual([
      ['gatehouse-tx-secre2', 'gatehouse-tx-secre3'],
      ['gatehouse-tx-secre1'],
    ]);
    const many = Array.from({ length: 22 }, (_one, n) => ({ ...secretNo(n), id: `id-${100 + n}` }));
    expect([...secretCookiesAfter(sessions, many).set.keys()]).toEqual(
      many.slice(2).map(({ id }) => `gatehouse-tx-${id}`),
    );
  });
});

test('with an https PUBLIC_URL the cookies are Secure and have the prefix __Host-, even on a plain listener', async () => {
  sessions = sessionsAt('https://gatehouse.test');
  const { line } = await call(signIn);
  expect(line).toMatch(/^__Host-gatehouse=s%3A[^;]+; Path=\/; HttpOnly; Secure; SameSite=Lax$/);

  const options = { httpOnly: true, sameSite: 'lax', path: '/', secure: true };
  const secretCookies = secretCookiesAfter(sessions, [secretNo(1)]);
  expect([[...secretCookies.set.keys()], secretCookies.options]).toEqual([['__Host-gatehouse-tx-secre1'], [options]]);
});
