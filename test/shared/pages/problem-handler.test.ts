/** Thrown errors become problems with headers, documents and the data of error pages. */
import express, { type ErrorRequestHandler, type Request } from 'express';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { AppError, type AppErrorOptions, type ProblemCode } from '../../../src/shared/errors.ts';
import { methodNotAllowed, notFound } from '../../../src/shared/http/problem.ts';
import { proxiedPaths } from '../../../src/shared/http/route-table.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import type { PageData } from '../../../src/shared/pages/page-data.ts';
import type { Pages } from '../../../src/shared/pages/pages.ts';
import { problemHandler } from '../../../src/shared/pages/problem-handler.ts';
import { ROUTE_TABLE } from '../../support/routes.ts';
import { ACCEPT_HTML, ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from '../http/serve.ts';

const ID = '0a1b2c3d-0000-4000-8000-00005e6f7a8b';
const NOW = Date.parse('2026-03-15T17:02:11Z');

let served: Served;
/** The handler of the next request, and its initial context. */
let failingHandler: (res: express.Response) => unknown;
let context: Partial<Request['context']>;
let failures: unknown[];
let shownPage: PageData['errors/error'] | undefined;
/** The errors of the handler itself. */
let unhandled: unknown[];
let isRecorded: boolean;
beforeEach(async () => {
  failures = [];
  unhandled = [];
  shownPage = undefined;
  context = {};
  isRecorded = true;
  const pages = {
    frame: (_req: Request, title: string) => ({ title, basePath: '', operatorName: 'Us', csrfToken: 'token' }),
    send(res: express.Response, _name: string, data: PageData['errors/error']) {
      shownPage = data;
      res.send('a page');
    },
  } as unknown as Pages;
  const events = { requestFailed: (facts: unknown) => void failures.push(facts) } as unknown as Events;
  const app = express().disable('etag');
  app.use((req, res, next) => {
    req.context = { id: ID, reference: ID.slice(-8), route: '/one', address: '192.0.2.1', ...context };
    const thrown = failingHandler(res);
    // Without an error, the response is already destroyed or under way.
    if (thrown !== undefined) next(thrown);
  });
  app.use(
    problemHandler(
      {
        pages,
        events,
        publicHref: 'https://gatehouse.test/gate',
        basePath: '/gate',
        clock: () => NOW,
        references: { record: async ({ context }) => (isRecorded ? context.reference : undefined) },
      },
      proxiedPaths(ROUTE_TABLE),
    ),
  );
  const lastResort: ErrorRequestHandler = (error, _req, res, _next) => {
    unhandled.push(error);
    res.destroy();
  };
  served = await serve(app.use(lastResort));
});
afterEach(async () => {
  await served.close();
  expect(unhandled).toEqual([]);
});

const failWith = (thrown: unknown, headers: Record<string, string> = ACCEPT_JSON, method = 'GET') => {
  failingHandler = () => thrown;
  return sendRequest(served.url, { headers, method });
};
const withCode = (code: string) => Object.assign(new Error('secret'), { code });
const withStatus = (status: unknown) => Object.assign(new Error('secret'), { status });

/** The details that the caller may read. */
const DETAILS: Record<string, string> = {
  too_large: 'Send less at once.',
  invalid_request: 'The URL or the body of the request cannot be read.',
};

describe('a thrown error', () => {
  test.each([
    ['no free descriptors in the process', withCode('EMFILE'), 503, 'overloaded'],
    ['no free descriptors in the system', withCode('ENFILE'), 503, 'overloaded'],
    ['no free descriptors while a package is loaded', withCode('ERR_INVALID_PACKAGE_CONFIG'), 503, 'overloaded'],
    ['another error of the system', withCode('ENOENT'), 500, 'internal'],
    ['a body that is too long', withStatus(413), 413, 'too_large'],
    ['a body that cannot be read', withStatus(400), 400, 'invalid_request'],
    ['a body of an unsupported type', withStatus(415), 400, 'invalid_request'],
    ['the last status of a caller’s fault', withStatus(499), 400, 'invalid_request'],
    ['the first status of a server’s fault', withStatus(500), 500, 'internal'],
    ['a status below 400', withStatus(399), 500, 'internal'],
    ['a status that is not a number', withStatus('400'), 500, 'internal'],
    ['an error without a status or code', new Error('secret'), 500, 'internal'],
    ['an object that is not an error', { status: 400, code: 'EMFILE' }, 500, 'internal'],
    ['a text', 'secret', 500, 'internal'],
    ['a problem of ours', new AppError('version_conflict'), 409, 'version_conflict'],
  ])('%s', async (_description, thrown, status, code) => {
    const response = await failWith(thrown);
    const { code: receivedCode, detail } = JSON.parse(response.body);
    expect([response.status, receivedCode, detail]).toEqual([status, code, DETAILS[code]]);
    expect(response.body).not.toContain('secret');
    expect(response.headers['retry-after']).toBe(code === 'overloaded' ? '2' : undefined);

    const cause = ['internal', 'overloaded'].includes(code) ? thrown : undefined;
    expect(failures).toStrictEqual([
      { requestId: ID, route: '/one', method: 'GET', code, status, detail: undefined, cause },
    ]);
  });

  test('becomes a document with exactly the facts that the caller may know', async () => {
    const error = new AppError('not_connected', {
      detail: 'Connect first.',
      logDetail: 'for the log',
      connectUrl: 'https://gatehouse.test/gate/connections/a',
      faults: [{ pointer: '#/a', rule: 'invalid', detail: 'Give a text.' }],
      retryAfterSeconds: 7,
      headers: { 'X-More': 'more' },
    });
    const { status, headers, body } = await failWith(error, ACCEPT_JSON, 'POST');
    expect([status, headers['content-type']]).toEqual([403, 'application/problem+json; charset=utf-8']);
    expect([headers['retry-after'], headers['x-more']]).toEqual(['7', 'more']);
    expect(JSON.parse(body)).toEqual({
      type: 'https://gatehouse.test/gate/problems/not_connected',
      title: 'Not connected yet',
      status: 403,
      detail: 'Connect first.',
      instance: `urn:uuid:${ID}`,
      code: 'not_connected',
      connectUrl: 'https://gatehouse.test/gate/connections/a',
      errors: [{ pointer: '#/a', rule: 'invalid', detail: 'Give a text.' }],
    });
    expect(failures).toMatchObject([{ method: 'POST', detail: 'for the log' }]);
  });

  test.each(['from-the-proxy-0001', `${ID}0`, `0${ID}`])(
    'has no instance if the request’s id is not a UUID: %s',
    async (id) => {
      context = { id };
      expect(JSON.parse((await failWith(new AppError('not_found'))).body)).not.toHaveProperty('instance');
    },
  );

  test.each([ID.toUpperCase(), ID.replaceAll('-', '')])('has the request’s id as its instance: %s', async (id) => {
    context = { id };
    const { instance } = JSON.parse((await failWith(new AppError('not_found'))).body);
    expect(instance.toLowerCase()).toBe(`urn:uuid:${ID}`);
  });

  test('removes the headers of the failed response', async () => {
    failingHandler = (res) => {
      res.set({ 'Content-Length': '7', 'Content-Encoding': 'gzip', 'Content-Language': 'fr', ETag: '"v1"' });
      res.set({ 'Last-Modified': 'Thu, 01 Jan 2026 00:00:00 GMT', 'X-Other': 'other' });
      return new AppError('platform_error');
    };
    const { status, headers, body } = await sendRequest(served.url, { headers: ACCEPT_JSON });
    expect([status, JSON.parse(body).code, headers['x-other']]).toEqual([502, 'platform_error', 'other']);
    expect(headers['content-length']).toBe(String(body.length));

    for (const name of ['content-encoding', 'content-language', 'etag', 'last-modified']) {
      expect(headers[name], name).toBeUndefined();
    }
  });

  test('after the head was sent closes the connection and is logged', async () => {
    failingHandler = (res) => {
      res.write('half of ');
      return new AppError('platform_error');
    };
    await expect(sendRequest(served.url, { headers: ACCEPT_JSON })).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(failures).toMatchObject([{ code: 'platform_error' }]);
  });

  test.each([
    ['a bug', new TypeError('secret'), 'internal'],
    ['an unavailable storage', new AppError('storage_unavailable'), 'storage_unavailable'],
    ['no free descriptors', withCode('EMFILE'), 'overloaded'],
  ])(
    'of Gatehouse is logged and counted even if the caller has disconnected: %s',
    async (_description, thrown, code) => {
      failingHandler = (res) => {
        res.destroy();
        return thrown;
      };
      await expect(sendRequest(served.url, { headers: ACCEPT_JSON })).rejects.toThrow();
      expect(failures).toMatchObject([{ code, requestId: ID, route: '/one' }]);
    },
  );

  test.each([
    ['a call that was ended because the caller disconnected', new AppError('platform_error')],
    ['a body that was cut off', withStatus(400)],
  ])('caused by a disconnected caller is not logged: %s', async (_description, thrown) => {
    failingHandler = (res) => {
      res.destroy();
      return thrown;
    };
    await expect(sendRequest(served.url, { headers: ACCEPT_JSON })).rejects.toThrow();
    expect(failures).toEqual([]);
  });
});

test.each([
  ['/threads/current', true],
  ['/bin/:bin', true],
  ['/bin', true],
  ['/relay/threads/current', true],
  ['/relay/bin/:bin', true],
  ['/relay/bin', true],
  ['/relay/token', false],
  ['/connections', false],
])('Proxy-Status tells responses of Gatehouse from those of the platform: %s: %s', async (route, isSet) => {
  const proxyStatusOf = async (code: ProblemCode) => {
    context = { route };
    return (await failWith(new AppError(code))).headers['proxy-status'];
  };
  expect(await proxyStatusOf('sign_in_required')).toBe(isSet ? 'gatehouse; error=http_request_denied' : undefined);
  expect(await proxyStatusOf('internal')).toBe(isSet ? 'gatehouse; error=proxy_internal_error' : undefined);
});

describe('the page', () => {
  const pageOf = async (code: ProblemCode, options: AppErrorOptions = {}) => {
    await failWith(new AppError(code, options), ACCEPT_HTML);
    return shownPage;
  };

  test('does not say twice what to do: a detail that repeats the advice is no cause', async () => {
    expect(await pageOf('too_large', { detail: 'Send less at once.' })).toMatchObject({ cause: undefined });
    expect(await pageOf('too_large', { detail: 'At most 20 MB.' })).toMatchObject({ cause: 'At most 20 MB.' });
  });

  test('receives the texts, the reference and the time', async () => {
    const words = { title: 'Another title', advice: 'Do this.' };
    const action = { label: 'This way', url: '/x' };
    const options = { detail: 'It is like this.', helper: 'platform', words, action, retryAfterSeconds: 7 } as const;
    expect(await pageOf('platform_error', options)).toEqual({
      page: { title: 'Another title', basePath: '', operatorName: 'Us', csrfToken: 'token' },
      ...words,
      code: 'platform_error',
      reference: '5e6f7a8b',
      time: '2026-03-15T17:02:11.000Z',
      cause: 'It is like this.',
      helper: 'platform',
      action,
      retryAfterSeconds: 7,
    });
  });

  test('shows no reference that was not recorded', async () => {
    isRecorded = false;
    expect(await pageOf('not_found')).toMatchObject({ reference: undefined, time: '2026-03-15T17:02:11.000Z' });
  });

  test('omits details for programs', async () => {
    const detail = 'Send the body with a Content-Length.';
    for (const code of ['method_not_allowed', 'length_required'] as const) {
      expect((await pageOf(code, { detail }))?.cause).toBeUndefined();
    }
    expect((await pageOf('too_large', { detail }))?.cause).toBe(detail);
  });

  test.each([
    ['sign_in_required', 'Sign in'],
    ['not_connected', 'Connect'],
    ['reconnect_needed', 'Reconnect'],
    ['scopes_missing', 'Add permissions'],
    ['step_up_required', 'Confirm that it is you'],
    ['not_allowed', 'Continue'],
  ] as const)('of %s has a button for its connect URL: %s', async (code, label) => {
    const connectUrl = 'https://gatehouse.test/gate/sign-in';
    expect((await pageOf(code, { connectUrl }))?.action).toEqual({ label, url: connectUrl });
    expect((await pageOf(code))?.action).toBeUndefined();

    const action = { label: 'Another way', url: '/x' };
    expect((await pageOf(code, { connectUrl, action }))?.action).toEqual(action);
  });

  test('has no CSRF token if the browser would send no origin with it', async () => {
    const tokenUnder = async (policy: string) => {
      failingHandler = (res) => {
        res.set('Referrer-Policy', policy);
        return new AppError('not_found');
      };
      await sendRequest(served.url, { headers: ACCEPT_HTML });
      return shownPage?.page.csrfToken;
    };
    expect([await tokenUnder('same-origin'), await tokenUnder('no-referrer')]).toEqual(['token', undefined]);
  });
});

test('unknown paths and methods become problems', () => {
  const next = vi.fn();
  notFound({} as never, {} as never, next);
  methodNotAllowed(['GET', 'HEAD'])({} as never, {} as never, next);
  expect(next.mock.calls).toMatchObject([
    [{ code: 'not_found', detail: 'Check the address: there is nothing here.' }],
    [{ code: 'method_not_allowed', detail: 'Allowed here: GET, HEAD.', headers: { Allow: 'GET, HEAD' } }],
  ]);
});
