/** R73: the requests with another host name that are redirected to PUBLIC_URL, and their targets. */
import express from 'express';
import { afterEach, describe, expect, test } from 'vitest';
import { parsePublicUrl } from '../../../src/shared/config/rules.ts';
import { type HostFault, publicHost } from '../../../src/shared/http/public-host.ts';
import { ACCEPT_HTML, ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from './serve.ts';

let served: Served | undefined;
let faults: HostFault[] = [];
afterEach(() => served?.close());

async function serveAt(href: string, { isTrusted = false } = {}) {
  const { publicUrl } = parsePublicUrl(href);
  if (!publicUrl) throw new Error(`${href} is not a PUBLIC_URL.`);
  faults = [];
  const app = express().set('query parser', false);
  app.use(
    publicHost({
      publicUrl,
      isTrusted: (address) => isTrusted && address === '127.0.0.1',
      isData: (path) => /^\/(threads\/|session$)/.test(path),
      isForProxies: (path) => path.endsWith('/verify'),
      onFault: (fault) => faults.push(fault),
    }),
    (req, res) => void res.set('x-seen', `${req.url} ${req.originalUrl}`).send('here'),
  );
  served = await serve(app);
  const { url } = served;
  /** @returns the target of the redirect, or "here" */
  return async (target: string, headers: Record<string, string>, method = 'GET') => {
    const response = await sendRequest(url, { target, headers, method });
    if (response.status === 302) return response.headers.location;
    return response.body || response.status;
  };
}

describe('under another host name', () => {
  const host = 'other.test';

  test('redirects a GET and a HEAD of a page, and handles other methods', async () => {
    const targetOf = await serveAt('https://gatehouse.test');
    expect(await targetOf('/connections?a=b', { ...ACCEPT_HTML, host })).toBe(
      'https://gatehouse.test/connections?a=b&gatehouse-redirected=1',
    );
    expect(await targetOf('/connections', { ...ACCEPT_HTML, host }, 'HEAD')).toBe(
      'https://gatehouse.test/connections?gatehouse-redirected=1',
    );
    expect(await targetOf('/connections', { ...ACCEPT_HTML, host }, 'POST')).toBe('here');
    expect(await targetOf('/connections', { ...ACCEPT_HTML, host }, 'DELETE')).toBe('here');
  });

  test('serves data under any name', async () => {
    const targetOf = await serveAt('https://gatehouse.test');
    expect(await targetOf('/connections', { ...ACCEPT_JSON, host })).toBe('here');
    expect(await targetOf('/session', { host })).toBe('here');
    expect(await targetOf('/threads/current', { accept: '*/*', host })).toBe('here');
    expect(await targetOf('/sessions', { host })).toBe('https://gatehouse.test/sessions?gatehouse-redirected=1');
    // A browser's navigation is redirected from any path.
    expect(await targetOf('/session', { ...ACCEPT_HTML, host })).toBe(
      'https://gatehouse.test/session?gatehouse-redirected=1',
    );
  });

  test('redirects below a base path', async () => {
    const targetOf = await serveAt('https://gatehouse.test/gate');
    expect(await targetOf('/gate/session', { host })).toBe('here');
    expect(await targetOf('/gate/sessions', { host })).toBe(
      'https://gatehouse.test/gate/sessions?gatehouse-redirected=1',
    );
  });

  test('R86 drops a path with a card number', async () => {
    const targetOf = await serveAt('https://gatehouse.test/gate');
    expect(await targetOf('/gate/x?4571736012345674', { ...ACCEPT_HTML, host })).toBe(
      'https://gatehouse.test/gate/?gatehouse-redirected=1',
    );
    expect(await targetOf('/gate/x?%34571736012345674', { ...ACCEPT_HTML, host })).toBe(
      'https://gatehouse.test/gate/?gatehouse-redirected=1',
    );
  });

  test('uses path and query of an absolute URL in the request line, and `/` for any other target', async () => {
    const targetOf = await serveAt('https://gatehouse.test');
    const page = { ...ACCEPT_HTML, host };
    expect(await targetOf('http://evil.test/connections?a=b', page)).toBe(
      'https://gatehouse.test/connections?a=b&gatehouse-redirected=1',
    );
    expect(await targetOf('http://evil.test', page)).toBe('https://gatehouse.test/?gatehouse-redirected=1');
    expect(await targetOf('*', page)).toBe('https://gatehouse.test/?gatehouse-redirected=1');
  });
});

describe('the host name of PUBLIC_URL', () => {
  test.each([
    ['https://gatehouse.test', 'gatehouse.test', true],
    ['https://gatehouse.test', 'GateHouse.TEST:443', true],
    ['https://gatehouse.test', 'gatehouse.test.', false],
    ['https://gatehouse.test', 'x.gatehouse.test', false],
    ['https://gatehouse.test', 'gatehouse.test:443:443', false],
    ['https://gatehouse.test', 'gatehouse:443.test', false],
    ['http://127.0.0.1', '127.0:80.0.1', false],
    ['http://127.0.0.1', '127.0.0.1:80', true],
    ['http://127.0.0.1:8080', '127.0.0.1:8080', true],
    ['http://127.0.0.1:8080', '127.0.0.2:8080', false],
  ])('of %s is %s: %s', async (href, host, isPublicHost) => {
    const targetOf = await serveAt(href);
    expect(await targetOf('/x', { ...ACCEPT_HTML, host })).toBe(
      isPublicHost ? 'here' : `${href}/x?gatehouse-redirected=1`,
    );
  });

  test('is the first one in X-Forwarded-Host of a trusted proxy, not the Host of the proxy', async () => {
    const targetOf = await serveAt('https://gatehouse.test', { isTrusted: true });
    const forwarded = (name: string) =>
      targetOf('/x', { ...ACCEPT_HTML, host: 'inner.test', 'x-forwarded-host': name });
    expect(await forwarded('gatehouse.test')).toBe('here');
    expect(await forwarded(' gatehouse.test , inner.test')).toBe('here');
    expect(await forwarded('inner.test, gatehouse.test')).toBe('https://gatehouse.test/x?gatehouse-redirected=1');
    expect(await targetOf('/x', { ...ACCEPT_HTML, host: 'inner.test' })).toBe('here');
  });

  test('is not taken from X-Forwarded-Host of an untrusted peer', async () => {
    const targetOf = await serveAt('https://gatehouse.test');
    const spoofed = { ...ACCEPT_HTML, host: 'other.test', 'x-forwarded-host': 'gatehouse.test' };
    expect(await targetOf('/x', spoofed)).toBe('https://gatehouse.test/x?gatehouse-redirected=1');
    expect(await targetOf('/x', { ...ACCEPT_HTML, host: 'gatehouse.test', 'x-forwarded-host': 'other.test' })).toBe(
      'here',
    );
  });
});

describe('a proxy that does not pass on the host of the browser', () => {
  /** Opens a page as a browser does that is at the host of PUBLIC_URL, or a program: it follows redirects. */
  async function openPage(href: string, forwarded: Record<string, string>, { isTrusted = true } = {}) {
    const targetOf = await serveAt(href, { isTrusted });
    const visited = ['/x?a=b'];
    for (;;) {
      const shown = await targetOf(visited.at(-1) ?? '', { ...ACCEPT_HTML, ...forwarded });
      if (shown === 'here') return { targetOf, visited };
      expect(String(shown).startsWith(`${new URL(href).origin}/`)).toBe(true);
      const next = String(shown).slice(new URL(href).origin.length);
      expect(visited).not.toContain(next);
      visited.push(next);
    }
  }

  test.each([
    ['https://gatehouse.test:8443', 'gatehouse.test'],
    ['https://gatehouse.test', 'gatehouse.test:8443'],
    ['https://gatehouse.test', 'gatehouse.test:80'],
    ['https://gatehouse.test', 'gatehouse.test:'],
    ['http://127.0.0.1:8080', '127.0.0.1:3000'],
    ['http://[::1]:8080', '[::1]'],
    ['https://gatehouse.test:8443', 'Gatehouse.test, gatehouse.test:8443'],
  ])('R73 only in the port (%s, %s): the page is served', async (href, host) => {
    for (const isTrusted of [true, false]) {
      const forwarded = isTrusted ? { 'x-forwarded-host': host } : { host: host.split(',')[0] ?? '' };
      expect(await openPage(href, forwarded, { isTrusted })).toMatchObject({ visited: ['/x?a=b'] });
      const seen = host.toLowerCase().split(',')[0];
      expect(faults).toEqual([{ peer: '127.0.0.1', isTrusted, seen, expected: new URL(href).host }]);
      served?.close();
    }
  });

  test.each(['gatehouse', 'gatehouse:3000', '10.0.0.7', 'inner.test, gatehouse.test', 'gatehouse.svc.cluster.local'])(
    'R73 in the name (%s): one redirect, then the page',
    async (host) => {
      for (const isTrusted of [true, false]) {
        const first = host.split(',')[0] ?? '';
        const forwarded = isTrusted ? { 'x-forwarded-host': host } : { host: first };
        expect(await openPage('https://gatehouse.test', forwarded, { isTrusted })).toMatchObject({
          visited: ['/x?a=b', '/x?a=b&gatehouse-redirected=1'],
        });
        expect(faults).toEqual([{ peer: '127.0.0.1', isTrusted, seen: first, expected: 'gatehouse.test' }]);
        served?.close();
      }
    },
  );

  test('R73 no redirect is to the address that was requested, whoever follows it', async () => {
    const hosts = [
      'inner',
      'GATEHOUSE.test.',
      '[::1]:8080',
      '10.0.0.7',
      '',
      'a b',
      'gatehouse.test, inner',
      'x'.repeat(300),
    ];
    const targets = [
      '/',
      '/?',
      '/x',
      '/x?a=b',
      '/x?a=b?',
      '/x?redirected=2',
      '/x?redirected',
      '//x',
      '/gate',
      '*',
      '/%3F',
    ];
    for (const href of ['https://gatehouse.test/gate', 'http://[::1]:3000', 'http://localhost']) {
      for (const host of hosts) {
        const targetOf = await serveAt(href, { isTrusted: true });
        for (const target of targets) {
          const headers = { ...ACCEPT_HTML, 'x-forwarded-host': host };
          const first = String(await targetOf(target, headers));
          if (first === 'here') continue;
          expect(first).toMatch(/^http.*[?&]gatehouse-redirected=1$/);
          expect(await targetOf(first.slice(new URL(href).origin.length), headers)).toBe('here');
        }
        served?.close();
      }
    }
  });

  test.each([
    ['/x?gatehouse-redirected=1', '/x'],
    ['/x?a=b&gatehouse-redirected=1', '/x?a=b'],
    ['/x?gatehouse-redirected=1&a=%26', '/x?a=%26'],
    ['/x?a=b&gatehouse-redirected=1&c=d', '/x?a=b&c=d'],
    ['/x?gatehouse-redirected=12', '/x?gatehouse-redirected=12'],
    ['/x?notgatehouse-redirected=1', '/x?notgatehouse-redirected=1'],
    ['/gatehouse-redirected=1', '/gatehouse-redirected=1'],
    ['/x?redirected=1', '/x?redirected=1'],
  ])('R73 routes do not see the parameter of the redirect: %s is %s', async (target, seen) => {
    await serveAt('https://gatehouse.test');
    for (const headers of [ACCEPT_HTML, ACCEPT_JSON])
      for (const method of ['GET', 'POST']) {
        const { url } = served as Served;
        const named = { ...headers, host: 'gatehouse.test' };
        expect((await sendRequest(url, { target, method, headers: named })).headers['x-seen']).toBe(`${seen} ${seen}`);
      }
    expect(faults).toEqual([]);
  });

  test('R73 a redirect sets no cookie, and reports no fault of an address that is not known to be a proxy', async () => {
    await serveAt('https://gatehouse.test/gate');
    const { status, headers } = await sendRequest(`${(served as Served).url}/gate/x`, { headers: ACCEPT_HTML });
    expect([status, headers.location]).toEqual([302, 'https://gatehouse.test/gate/x?gatehouse-redirected=1']);
    expect(headers).not.toHaveProperty('set-cookie');
    expect(faults).toEqual([]);
  });

  test('R73 each host is reported once, at most ten of them, and no text that is not a host', async () => {
    const targetOf = await serveAt('https://gatehouse.test', { isTrusted: true });
    const open = (host: string) => targetOf('/x', { ...ACCEPT_HTML, 'x-forwarded-host': host });
    for (let n = 0; n < 3; n += 1) await open('inner.test');
    await open('<script>');
    await open('4571736012345674.test');
    await open('a'.repeat(300));
    expect(faults.map(({ seen }) => seen)).toEqual(['inner.test', '(no host name)']);
    for (let n = 0; n < 20; n += 1) await open(`host-${n}.test`);
    expect(faults).toHaveLength(10);
  });

  test('R77 a proxy that asks for itself is neither redirected nor reported', async () => {
    const targetOf = await serveAt('https://gatehouse.test', { isTrusted: true });
    expect(await targetOf('/verify', { ...ACCEPT_HTML, 'x-forwarded-host': 'inner.test' })).toBe('here');
    expect(faults).toEqual([]);
  });
});
