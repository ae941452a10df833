/** Who is looking: noted, demanded or sent to sign in; and the frame of the pages that they see. */
import express, { type ErrorRequestHandler, type Request, type Response } from 'express';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AppError } from '../../src/errors.ts';
import { createPages } from '../../src/http/pages.ts';
import type { Sessions } from '../../src/http/session.ts';
import type { LiveSession } from '../../src/http/session-data.ts';
import { createViewerGuards, viewerOf, wantsData, wantsPage } from '../../src/http/viewer.ts';
import type { Views } from '../../src/http/views.ts';
import { ask, DATA, PAGE } from '../support/ask.ts';
import { type Served, serve } from './serve.ts';
import { USER as PERSON } from './user.ts';

const USER = { ...PERSON, admin: true };
const VIEWER = { user: USER, csrfToken: 'token', app: 'platform', acr: 'gold', expiresAt: 9, sessionRef: 'ref' };
const live = (viewer?: typeof VIEWER) => ({ data: {}, expiresAt: 9, seenAt: 5, ref: 'ref', viewer }) as LiveSession;

let session: LiveSession | undefined | Error;
let extended: boolean[];
let served: Served;
beforeEach(async () => {
  [session, extended] = [undefined, []];
  const sessions = {
    async read(_req: Request, { extend }: { extend: boolean }) {
      extended.push(extend);
      if (session instanceof Error) throw session;
      return session;
    },
  } as unknown as Sessions;
  const guards = createViewerGuards({ sessions, publicHref: 'https://gatehouse.test/gate', basePath: '/gate' });
  const app = express().set('query parser', false);
  app.use((req, _res, next) => {
    req.context = { id: 'i', reference: 'i', route: '/' };
    next();
  });
  for (const name of ['anyone', 'onlooker', 'user', 'userPage'] as const) app.use(`/${name}`, guards[name]);
  app.use((req, res) => void res.json(req.context.viewer ?? null));
  const failed: ErrorRequestHandler = (error, _req, res, _next) => {
    if (error instanceof AppError) res.status(error.status).json({ ...error });
    else res.status(500).json({ message: error.message });
  };
  served = await serve(app.use(failed));
});
afterEach(() => served.close());

const told = async (path: string, headers: Record<string, string> = DATA, method = 'GET') => {
  const answer = await ask(served.url + path, { headers, method });
  return [answer.status, answer.headers.location ?? JSON.parse(answer.body)];
};
const REFUSED = {
  code: 'sign_in_required',
  detail: 'There is no session, or it has ended. Sign in and try again.',
  connectUrl: 'https://gatehouse.test/gate/sign-in',
};

describe('a session', () => {
  test.each([
    ['anyone', true],
    ['onlooker', false],
    ['user', true],
    ['userPage', true],
  ])('%s knows whose it is; its idle time begins anew: %s', async (guard, extends_) => {
    session = live(VIEWER);
    expect(await told(`/${guard}`)).toEqual([200, VIEWER]);
    expect(extended).toEqual([extends_]);
  });

  test('that lets nobody in is none', async () => {
    session = live();
    expect(await told('/anyone')).toEqual([200, null]);
    expect(await told('/user')).toMatchObject([401, REFUSED]);
  });

  test('that the store cannot give is a failure, and nobody is taken for a stranger', async () => {
    session = new Error('no store');
    for (const guard of ['anyone', 'onlooker', 'user', 'userPage']) {
      expect(await told(`/${guard}`, PAGE), guard).toEqual([500, { message: 'no store' }]);
    }
  });
});

describe('who has none', () => {
  test('is let pass where anybody may look, and refused where not', async () => {
    expect([await told('/anyone'), await told('/onlooker')]).toEqual([
      [200, null],
      [200, null],
    ]);
    expect(await told('/user', PAGE)).toMatchObject([401, REFUSED]);
  });

  test('is sent to sign in from a page, and back to it afterwards', async () => {
    const target = '/gate/sign-in?return_to=%2FuserPage%2Fx%3Fa%3Db%26c';
    expect(await told('/userPage/x?a=b&c', PAGE)).toEqual([303, target]);
    expect(await told('/userPage/x?a=b&c', { accept: '*/*' })).toEqual([303, target]);
    expect(await told('/userPage', DATA)).toMatchObject([401, REFUSED]);
    expect(await told('/userPage', PAGE, 'POST')).toMatchObject([401, REFUSED]);
  });
});

test.each([
  [PAGE.accept, true, false],
  ['application/json', false, true],
  ['application/json, text/html;q=0.9', false, true],
  ['text/html, application/json;q=0.9', true, false],
  ['*/*', false, false],
  ['image/png', false, false],
])('who accepts %s wants a page: %s, data: %s', (accept, page, data) => {
  const req = Object.create(express.request, { headers: { value: { accept } } }) as Request;
  expect([wantsPage(req), wantsData(req)]).toEqual([page, data]);
});

test('a route that demands somebody fails where nobody is', () => {
  const reqOf = (viewer?: object) => ({ context: { viewer } }) as unknown as Request;
  expect(viewerOf(reqOf(VIEWER))).toEqual(VIEWER);
  expect(() => viewerOf(reqOf())).toThrow(expect.objectContaining({ code: 'sign_in_required' }));
});

describe('the frame of a page', () => {
  const config = {
    publicUrl: { href: '', origin: '', host: '', basePath: '/gate', secure: true },
    pages: { operatorName: 'Us', supportContact: 'help@example.test' },
  };
  const drawn: unknown[] = [];
  const views: Views = {
    render: (...given) => `drawn ${drawn.push(given)}`,
    renderAdmin: (...given) => `drawn ${drawn.push(given)}`,
  };
  let pages: ReturnType<typeof createPages>;
  beforeEach(() => {
    pages = createPages({ views, config: config as Parameters<typeof createPages>[0]['config'] });
  });
  const reqOf = (viewer?: object) => ({ context: { viewer } }) as unknown as Request;
  const BASE = { title: 'T', basePath: '/gate', operatorName: 'Us', supportContact: 'help@example.test' };

  test('names who is signed in, and only them', () => {
    const user = { name: 'Ada', email: 'ada@example.test', admin: true };
    expect(pages.frame(reqOf(VIEWER), 'T')).toEqual({ ...BASE, user, csrfToken: 'token' });
    expect(pages.signedInFrame(reqOf(VIEWER), 'T')).toEqual({ ...BASE, user, csrfToken: 'token' });
    expect(pages.frame(reqOf(), 'T')).toEqual(BASE);
    expect(() => pages.signedInFrame(reqOf(), 'T')).toThrow(expect.objectContaining({ code: 'sign_in_required' }));
  });

  test.each([
    [{ name: 'Ada', email: 'ada@example.test', subject: 's' }, 'Ada'],
    [{ name: undefined, email: 'ada@example.test', subject: 's' }, 'ada@example.test'],
    [{ name: undefined, email: undefined, subject: 's' }, 's'],
  ])('calls %j %s', (user, name) => {
    expect(pages.frame(reqOf({ ...VIEWER, user }), 'T').user?.name).toBe(name);
  });

  test('and what it frames is sent as HTML', () => {
    const sent: string[] = [];
    const res = {
      type: (type: string) => ({ ...res, sent: sent.push(type) }),
      send: (text: string) => void sent.push(text),
    };
    const data = { page: { ...BASE }, code: 'not_found' } as const;
    pages.send(res as unknown as Response, 'problem', data);
    pages.sendAdmin(res as unknown as Response, 'admin/home' as never, data as never);
    expect(sent).toEqual(['html', 'drawn 1', 'html', 'drawn 2']);
    expect(drawn).toEqual([
      ['problem', data],
      ['admin/home', data],
    ]);
  });
});
