/** The guards of sessions, and the frame of pages with and without a session. */
import express, { type ErrorRequestHandler, type Request, type Response } from 'express';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AppError } from '../../../src/shared/errors.ts';
import { wantsData, wantsPage } from '../../../src/shared/http/accept.ts';
import { createPageSender, type PageConfig, type Pages } from '../../../src/shared/pages/pages.ts';
import type { Views } from '../../../src/shared/pages/views.ts';
import { createSessionGuards, sessionOf } from '../../../src/shared/sessions/guards.ts';
import type { Session } from '../../../src/shared/sessions/session.ts';
import { ACCEPT_HTML, ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from '../http/serve.ts';
import { USER as PERSON } from './user.ts';

const USER = { ...PERSON, admin: true };
const SESSION = { user: USER, csrfToken: 'token', app: 'platform', acr: 'gold', expiresAt: 9, ref: 'ref' } as Session;

let session: Session | undefined | Error;
let extended: boolean[];
let served: Served;
beforeEach(async () => {
  session = undefined;
  extended = [];
  const guards = createSessionGuards({
    publicUrl: { href: 'https://gatehouse.test/gate', origin: 'https://gatehouse.test', basePath: '/gate' },
    isTrusted: () => true,
    async read(_req, { extend }) {
      extended.push(extend);
      if (session instanceof Error) throw session;
      return session;
    },
  });
  const app = express().set('query parser', false);
  app.use((req, _res, next) => {
    req.context = { id: 'i', reference: 'i', route: '/', address: '192.0.2.1' };
    next();
  });
  for (const name of ['loadSession', 'peekSession', 'requireUser', 'requireUserOrRedirect'] as const)
    app.use(`/${name}`, guards[name]);
  app.use((req, res) => void res.json(req.context.session ?? null));
  const failed: ErrorRequestHandler = (error, _req, res, _next) => {
    if (error instanceof AppError) res.status(error.status).json({ ...error });
    else res.status(500).json({ message: error.message });
  };
  served = await serve(app.use(failed));
});
afterEach(() => served.close());

const get = async (path: string, headers: Record<string, string> = ACCEPT_JSON, method = 'GET') => {
  const response = await sendRequest(served.url + path, { headers, method });
  return [response.status, response.headers.location ?? JSON.parse(response.body)];
};
const REFUSED = {
  code: 'sign_in_required',
  detail: 'You are not signed in, or your session has ended. Sign in and try again.',
  connectUrl: 'https://gatehouse.test/gate/sign-in',
};

describe('a session', () => {
  test.each([
    ['loadSession', true],
    ['peekSession', false],
    ['requireUser', true],
    ['requireUserOrRedirect', true],
  ])('%s reads it and extends its idle time: %s', async (guard, isExtended) => {
    session = SESSION;
    expect(await get(`/${guard}`)).toEqual([200, SESSION]);
    expect(extended).toEqual([isExtended]);
  });

  test('that the store cannot read is an error, not a missing session', async () => {
    session = new Error('no store');
    for (const guard of ['loadSession', 'peekSession', 'requireUser', 'requireUserOrRedirect']) {
      expect(await get(`/${guard}`, ACCEPT_HTML), guard).toEqual([500, { message: 'no store' }]);
    }
  });
});

describe('a caller without a session', () => {
  test('passes the guards that need none, and is refused by the others', async () => {
    expect([await get('/loadSession'), await get('/peekSession')]).toEqual([
      [200, null],
      [200, null],
    ]);
    expect(await get('/requireUser', ACCEPT_HTML)).toMatchObject([401, REFUSED]);
  });

  test('is redirected from a page to sign in, and back to it afterwards', async () => {
    const target = '/gate/sign-in?return_to=%2FrequireUserOrRedirect%2Fx%3Fa%3Db%26c';
    expect(await get('/requireUserOrRedirect/x?a=b&c', ACCEPT_HTML)).toEqual([303, target]);
    expect(await get('/requireUserOrRedirect/x?a=b&c', { accept: '*/*' })).toEqual([303, target]);
    expect(await get('/requireUserOrRedirect', ACCEPT_JSON)).toMatchObject([401, REFUSED]);
    expect(await get('/requireUserOrRedirect', ACCEPT_HTML, 'POST')).toMatchObject([401, REFUSED]);
  });
});

test.each([
  [ACCEPT_HTML.accept, true, false],
  ['application/json', false, true],
  ['application/json, text/html;q=0.9', false, true],
  ['text/html, application/json;q=0.9', true, false],
  ['*/*', false, false],
  ['image/png', false, false],
])('a request that accepts %s wants a page: %s, data: %s', (accept, page, data) => {
  const req = Object.create(express.request, { headers: { value: { accept } } }) as Request;
  expect([wantsPage(req), wantsData(req)]).toEqual([page, data]);
});

test('sessionOf throws without a session', () => {
  const reqOf = (session?: object) => ({ context: { session } }) as unknown as Request;
  expect(sessionOf(reqOf(SESSION))).toEqual(SESSION);
  expect(() => sessionOf(reqOf())).toThrow(expect.objectContaining({ code: 'sign_in_required' }));
});

describe('the frame of a page', () => {
  const config = {
    publicUrl: { href: '', origin: '', host: '', basePath: '/gate', secure: true },
    pages: { operatorName: 'Us', supportContact: 'help@example.test' },
  };
  const renderCalls: unknown[] = [];
  const views: Views = { render: (...parameters) => `drawn ${renderCalls.push(parameters)}` };
  const flashes = { save: () => Promise.resolve(''), take: () => Promise.resolve({}) };
  const submissions = { once: () => Promise.resolve('') };
  const keptForms = { save: () => Promise.resolve(''), read: () => Promise.resolve(undefined) };
  let pages: Pages;
  beforeEach(() => {
    pages = createPageSender({ views, flashes, submissions, keptForms, config: config as PageConfig });
  });
  const reqOf = (session?: object) => ({ context: { session } }) as unknown as Request;
  const BASE = { title: 'T', basePath: '/gate', operatorName: 'Us', supportContact: 'help@example.test' };

  test('names the signed-in user', () => {
    const user = { id: SESSION.user.id, name: 'Ada', email: 'ada@example.test', admin: true };
    const signedIn = { ...BASE, user, csrfToken: 'token', formId: expect.stringMatching(/^[0-9a-f-]{36}$/) };
    expect(pages.frame(reqOf(SESSION), 'T')).toEqual(signedIn);
    expect(pages.signedInFrame(reqOf(SESSION), 'T')).toEqual(signedIn);
    expect(pages.frame(reqOf(), 'T')).toEqual(BASE);
    expect(() => pages.signedInFrame(reqOf(), 'T')).toThrow(expect.objectContaining({ code: 'sign_in_required' }));
  });

  test.each([
    [{ name: 'Ada', email: 'ada@example.test', subject: 's' }, 'Ada'],
    [{ name: undefined, email: 'ada@example.test', subject: 's' }, 'ada@example.test'],
    [{ name: undefined, email: undefined, subject: 's' }, 's'],
  ])('names %j as %s', (user, name) => {
    expect(pages.frame(reqOf({ ...SESSION, user }), 'T').user?.name).toBe(name);
  });

  test('is sent as HTML with the page', () => {
    const sent: string[] = [];
    const res = {
      set: () => res,
      type: (type: string) => ({ ...res, sent: sent.push(type) }),
      send: (text: string) => void sent.push(text),
    };
    const data = { page: { ...BASE }, code: 'not_found' } as const;
    pages.send(res as unknown as Response, 'errors/problem', data);
    expect(sent).toEqual(['html', 'drawn 1']);
    expect(renderCalls).toEqual([['errors/problem', data]]);
  });
});
