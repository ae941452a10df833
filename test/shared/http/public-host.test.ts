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
    (_req, res) => void res.send('here'),
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
    expect(await targetOf('/connections?a=b', { ...ACCEPT_HTML, host })).toBe('https://gatehouse.test/connections?a=b');
    expect(await targetOf('/connections', { ...ACCEPT_HTML, host }, 'HEAD')).toBe('https://gatehouse.test/connections');
    expect(await targetOf('/connections', { ...ACCEPT_HTML, host }, 'POST')).toBe('here');
    expect(await targetOf('/connections', { ...ACCEPT_HTML, host }, 'DELETE')).toBe('here');
  });

  test('serves data under any name', async () => {
    const targetOf = await serveAt('https://gatehouse.test');
    expect(await targetOf('/connections', { ...ACCEPT_JSON, host })).toBe('here');
    expect(await targetOf('/session', { host })).toBe('here');
    expect(await targetOf('/threads/current', { accept: '*/*', host })).toBe('here');
    expect(await targetOf('/sessions', { host })).toBe('https://gatehouse.test/sessions');
    // A browser's navigation is redirected from any path.
    expect(await targetOf('/session', { ...ACCEPT_HTML, host })).toBe('https://gatehouse.test/session');
  });

  test('redirects below a base path', async () => {
    const targetOf = await serveAt('https://gatehouse.test/gate');
    expect(await targetOf('/gate/session', { host })).toBe('here');
    expect(await targetOf('/gate/sessions', { host })).toBe('https://gatehouse.test/gate/sessions');
  });

  test('R86 drops a path with a card number', async () => {
    const targetOf = await serveAt('https://gatehouse.test/gate');
    expect(await targetOf('/gate/x?4571736012345674', { ...ACCEPT_HTML, host })).toBe('https://gatehouse.test/gate/');
    expect(await targetOf('/gate/x?%34571736012345674', { ...ACCEPT_HTML, host })).toBe('https://gatehouse.test/gate/');
  });

  test('uses path and query of an absolute URL in the request line, and `/` for any other target', async () => {
    const targetOf = await serveAt('https://gatehouse.test');
    const page = { ...ACCEPT_HTML, host };
    expect(await targetOf('http://evil.test/connections?a=b', page)).toBe('https://gatehouse.test/connections?a=b');
    expect(await targetOf('http://evil.test', page)).toBe('https://gatehouse.test/');
    expect(await targetOf('*', page)).toBe('https://gatehouse.test/');
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
    expect(await targetOf('/x', { ...ACCEPT_HTML, host })).toBe(isPublicHost ? 'here' : `${href}/x`);
  });

  test('is the first one in X-Forwarded-Host of a trusted proxy, not the Host of the proxy', async () => {
    const targetOf = await serveAt('https://gatehouse.test', { isTrusted: true });
    const forwarded = (name: string) =>
      targetOf('/x', { ...ACCEPT_HTML, host: 'inner.test', 'x-forwarded-host': name });
    expect(await forwarded('gatehouse.test')).toBe('here');
    expect(await forwarded(' gatehouse.test , inner.test')).toBe('here');
    expect(await forwarded('inner.test, gatehouse.test')).toBe('https://gatehouse.test/x');
    expect(await targetOf('/x', { ...ACCEPT_HTML, host: 'inner.test' })).toBe('here');
  });

  test('is not taken from X-Forwarded-Host of an untrusted peer', async () => {
    const targetOf = await serveAt('https://gatehouse.test');
    const spoofed = { ...ACCEPT_HTML, host: 'other.test', 'x-forwarded-host': 'gatehouse.test' };
    expect(await targetOf('/x', spoofed)).toBe('https://gatehouse.test/x');
    expect(await targetOf('/x', { ...ACCEPT_HTML, host: 'gatehouse.test', 'x-forwarded-host': 'other.test' })).toBe(
      'here',
    );
  });
});

describe('a proxy that does not pass on the host of the browser', () => {
  /** Opens a page as a browser does that is at the host of PUBLIC_URL: it follows redirects, and keeps cookies. */
  async function openPage(href: string, forwarded: Record<string, string>, { isTrusted = true } = {}) {
    const targetOf = await serveAt(href, { isTrusted });
    const { url } = served as Served;
    const first = await sendRequest(`${url}/x?a=b`, { headers: { ...ACCEPT_HTML, ...forwarded } });
    if (first.status !== 302) return { shown: first.body, redirects: 0, targetOf };
    expect(first.headers.location).toBe(`${new URL(href).origin}/x?a=b`);
    const cookie = String(first.headers['set-cookie']).split(';')[0] ?? '';
    return { shown: await targetOf('/x?a=b', { ...ACCEPT_HTML, ...forwarded, cookie }), redirects: 1, targetOf };
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
      expect(await openPage(href, forwarded, { isTrusted })).toMatchObject({ shown: 'here', redirects: 0 });
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
          shown: 'here',
          redirects: 1,
        });
        expect(faults).toEqual([{ peer: '127.0.0.1', isTrusted, seen: first, expected: 'gatehouse.test' }]);
        served?.close();
      }
    },
  );

  test('R73 the cookie of the redirect belongs to the host alone and ends after seconds', async () => {
    await serveAt('https://gatehouse.test/gate');
    const { headers } = await sendRequest(`${(served as Served).url}/gate/x`, { headers: ACCEPT_HTML });
    expect(headers['set-cookie']).toEqual([
      expect.stringMatching(
        /^__Host-gatehouse-redirected\+gate=1; Max-Age=5; Path=\/; Expires=[^;]*; HttpOnly; Secure; SameSite=Lax$/,
      ),
    ]);
    // The user's other address has no fault, as far as anyone can tell.
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
