/** R68 and R69: the headers that every answer carries, whatever its status. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parsePublicUrl } from '../../../src/shared/config/rules.ts';
import { AT_ONCE, bindPorts, closeServer } from '../../../src/shared/http/listeners.ts';
import { type Asked, ask, DATA, FORM, JSON_BODY, PAGE } from '../../support/ask.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { freePort } from '../../support/ports.ts';
import { sendRaw } from '../../support/raw-http.ts';
import { ROUTES } from '../../support/routes.ts';
import { breakStore } from '../../support/store-fault.ts';

let site: TestSite;
let cookie: string;
let csrf: string;
beforeAll(async () => {
  site = await startSite();
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
  csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
});
afterAll(() => site.close());

function expectGuarded({ headers }: Pick<Asked, 'headers'>, at: string): void {
  const policy = String(headers['content-security-policy']);
  for (const directive of ["frame-ancestors 'none'", "object-src 'none'", "base-uri 'none'"]) {
    // A thread is data: nothing at all may run in it, and `default-src` covers the rest.
    if (!policy.includes('sandbox')) expect(policy, at).toContain(directive);
  }
  expect(policy, at).toContain("default-src 'none'");
  expect(policy, at).toContain("frame-ancestors 'none'");
  expect(policy, at).not.toMatch(/form-action|unsafe|\*|https?:/);
  expect(headers['x-content-type-options'], at).toBe('nosniff');
  expect(headers['referrer-policy'], at).toMatch(/^(same-origin|no-referrer)$/);
  expect(headers['x-powered-by'], at).toBeUndefined();
  expect(headers['x-request-id'], at).toMatch(/^[0-9a-f-]{36}$/);
}

/** An answer of each status that can be had. */
function answers(): Record<number, () => Promise<Asked>> {
  const get = (path: string, headers: Record<string, string> = {}) => ask(site.url + path, { headers });
  const post = (path: string, headers: Record<string, string>, body: string) =>
    ask(site.url + path, { method: 'POST', headers: { ...DATA, ...headers }, body });
  return {
    200: () => get('/', { cookie, ...PAGE }),
    302: () => ask(`${site.url}/`, { headers: { ...PAGE, host: 'localhost' } }),
    303: () => get('/sign-in', PAGE),
    400: () => get('/bin/1', { cookie, ...DATA }),
    401: () => get('/threads/current', DATA),
    403: () => post('/bin', { cookie, ...JSON_BODY }, '{}'),
    404: () => get('/nothing', PAGE),
    405: () => ask(`${site.url}/threads/current`, { method: 'DELETE' }),
    411: () => ask(`${site.url}/bin`, { method: 'POST', headers: { 'transfer-encoding': 'chunked' } }),
    413: () => post('/bin', { cookie, ...JSON_BODY }, JSON.stringify({ bins: ['x'.repeat(70_000)] })),
    502: async () => {
      const off = site.sandbox.faults.set({ on: 'platform', kind: 'error' });
      return get('/threads/current', { cookie, ...DATA }).finally(off);
    },
    503: async () => {
      const heal = breakStore();
      return get('/session', { cookie }).finally(heal);
    },
  };
}

describe('R68 on every status', () => {
  test.each(Object.keys(answers()).map(Number))('%i', async (status) => {
    const answer = await answers()[status]?.();
    expect(answer?.status).toBe(status);
    if (answer) expectGuarded(answer, String(status));
    expect(answer?.headers['strict-transport-security']).toBeUndefined();
  });

  test('500, which says nothing of its cause', async () => {
    const { default: express } = await import('express');
    const original = express.response.json;
    express.response.json = () => {
      // A system's error has a code, which makes it no less ours.
      throw Object.assign(new Error('secret internals of /etc/passwd'), { code: 'ENOENT' });
    };
    const answer = await ask(`${site.url}/session`, { headers: DATA }).finally(() => {
      express.response.json = original;
    });
    expect(answer.status).toBe(500);
    expectGuarded(answer, '500');
    expect(answer.body).not.toMatch(/secret|internals|passwd|at \w+/);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'internal', title: 'Something went wrong here' });
  });

  test('431 and 400 of the parser itself, before any route', async () => {
    const huge = await sendRaw(site.url, `GET / HTTP/1.1\r\nHost: x\r\nX-Big: ${'y'.repeat(20_000)}\r\n\r\n`);
    const broken = await sendRaw(site.url, 'GET / HTTP/9.9\r\nHost: x\r\n\r\n');
    expect([huge.status, broken.status]).toEqual([431, 400]);
    for (const { headers, rest } of [huge, broken]) {
      expectGuarded(
        { headers: Object.fromEntries([...headers].map(([name, values]) => [name, values.join(', ')])) },
        'raw',
      );
      expect(JSON.parse(rest)).toMatchObject({
        type: expect.stringMatching(/\/problems\//),
        instance: expect.stringMatching(/^urn:uuid:/),
      });
    }
  });

  test('a page says that it is HTML in UTF-8, those of administrators too', async () => {
    const { agent } = await signIn(site, 'admin@example.test');
    for (const path of ['/', '/connections', '/sessions', '/admin', '/admin/users']) {
      const { status, headers } = await agent.get(site.url + path);
      expect([status, headers.get('content-type')], path).toEqual([200, 'text/html; charset=utf-8']);
    }
  });

  test('every route, as a page and as data; pages are isolated from whoever opened them', async () => {
    for (const { method, path } of ROUTES) {
      for (const accept of [PAGE, DATA]) {
        const answer = await ask(site.url + path, { method, headers: { ...accept, ...FORM, cookie } });
        expectGuarded(answer, `${method} ${path}`);
        expect(answer.headers['cross-origin-opener-policy'], path).toBe('same-origin');
      }
    }
  });

  test('https: HSTS on every answer', async () => {
    const secure = await startSite({ env: { PUBLIC_URL: 'https://gatehouse.test' } });
    try {
      const listener = `http://127.0.0.1:${secure.env.PORT}`;
      for (const path of ['/', '/nothing', '/threads/current', '/assets/gatehouse.css', '/sign-in']) {
        const { headers } = await ask(listener + path, { headers: { host: 'gatehouse.test', ...PAGE } });
        expect(headers['strict-transport-security'], path).toBe('max-age=31536000');
      }
      const long = await ask(`${listener}/${'x'.repeat(9_000)}`);
      expect([long.status, long.headers['strict-transport-security']]).toEqual([413, 'max-age=31536000']);
      const broken = await sendRaw(listener, 'GET / HTTP/9.9\r\nHost: x\r\n\r\n');
      expect([broken.status, broken.headers.get('strict-transport-security')]).toEqual([400, ['max-age=31536000']]);
      for (const path of ['/healthz', '/readyz', '/metrics', '/nothing', `/${'x'.repeat(9_000)}`]) {
        const { headers } = await ask(secure.managementUrl + path);
        expect(headers, path).toMatchObject({
          'strict-transport-security': 'max-age=31536000',
          'content-security-policy': expect.stringContaining("default-src 'none'"),
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'same-origin',
        });
      }
      const unread = await sendRaw(secure.managementUrl, 'GET / HTTP/9.9\r\nHost: x\r\n\r\n');
      expect([unread.status, unread.headers.get('strict-transport-security')]).toEqual([400, ['max-age=31536000']]);
    } finally {
      await secure.close();
    }
  });

  test('https: HSTS and the other headers while the program still starts', async () => {
    const [port, managementPort] = [await freePort(), await freePort()];
    const { publicUrl } = parsePublicUrl('https://gatehouse.test');
    if (!publicUrl) throw new TypeError('The URL is good.');
    const at = (number: number) => ({ host: '127.0.0.1', port: number });
    const bound = await bindPorts({ listen: at(port), management: at(managementPort), publicUrl, trustedProxies: [] });
    try {
      const { status, headers } = await ask(`http://127.0.0.1:${managementPort}/readyz`);
      expect(status).toBe(503);
      expect(headers).toMatchObject({
        'strict-transport-security': 'max-age=31536000',
        'content-security-policy': expect.stringContaining("default-src 'none'"),
        'referrer-policy': 'same-origin',
        'cross-origin-opener-policy': 'same-origin',
      });
    } finally {
      await Promise.all(bound.map(({ server }) => closeServer(server, AT_ONCE)));
    }
  });

  test('an error in place of a relayed answer is a page of ours, with our own policy', async () => {
    const off = site.sandbox.faults.set({ on: 'platform', kind: 'reset', when: 'before_headers' });
    const answer = await ask(`${site.url}/threads/current`, { headers: { ...PAGE, cookie } }).finally(off);
    expect(answer.status).toBe(502);
    expect(answer.headers['content-security-policy']).toContain("style-src 'self'");
  });
});

describe('R69 nothing of a person is kept by caches', () => {
  test.each(ROUTES)('$method $path', async ({ method, path }) => {
    for (const headers of [{ cookie, ...PAGE }, { cookie, ...DATA }, PAGE, DATA]) {
      const answer = await ask(site.url + path, {
        method,
        headers: { ...headers, ...FORM },
        ...(method === 'POST' ? { body: `bin=45717360&_csrf=${path === '/bin' ? csrf : ''}` } : {}),
      });
      expect(answer.headers['cache-control']).toBe('no-store');
      expect(answer.headers.etag === undefined || path === '/threads/current').toBe(true);
    }
  });

  test('files of pages are kept, and belong to nobody', async () => {
    for (const file of ['gatehouse.css', 'pico.css', 'bin.js', 'icons/favicon.svg', 'flags/dk.svg']) {
      const answer = await ask(`${site.url}/assets/${file}`, { headers: { cookie } });
      expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'public, max-age=3600']);
      expect(answer.headers['set-cookie']).toBeUndefined();
    }
    for (const path of [
      '/assets/none.css',
      '/assets/',
      '/assets/..%2f..%2fpackage.json',
      '/assets/%00',
      '/assets/.env',
      '/assets/icons',
      '/assets/flags/zz.svg',
      '/assets/flags/DK.svg',
    ]) {
      const answer = await ask(site.url + path);
      expect(answer.status, path).toBeGreaterThanOrEqual(400);
      expect(answer.status, path).toBeLessThan(500);
      expect(answer.headers['cache-control'], path).toBe('no-store');
    }
    expect((await ask(`${site.url}/assets/gatehouse.css`, { method: 'POST' })).headers.allow).toBe('GET, HEAD');
  });
});
