/** R73: only trusted proxies can set host, scheme and sender of a request. Also: a PUBLIC_URL with a path. */

import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sharedAssets } from '../../../src/shared/pages/assets.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { freePort } from '../../support/ports.ts';
import { ROUTES } from '../../support/routes.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';

const SPOOFING_HEADERS = {
  'x-forwarded-host': 'evil.example',
  'x-forwarded-proto': 'https',
  'x-forwarded-for': '203.0.113.7',
  'x-forwarded-port': '444',
  'x-forwarded-prefix': '/evil',
  'x-forwarded-uri': '/healthz',
  'x-original-url': '/session',
  'x-rewrite-url': '/session',
  'x-real-ip': '203.0.113.7',
  forwarded: 'host=evil.example;proto=https',
};

/** Headers that differ between equal responses. */
const VOLATILE = /^(date|x-request-id|content-length|connection|keep-alive|set-cookie|gatehouse-user-assertion)$/;
const STATE = /(state|nonce|code_challenge)=[^&"]+/g;
const REFERENCE =
  /<code class="reference[\s\S]*?<\/code>|name="_form" value="[^"]+"|urn:uuid:[0-9a-f-]+|datetime="[^"]+"|\d\d:\d\d/g;

describe('R73 without a trusted proxy', () => {
  let site: TestSite;
  let cookie: string;
  beforeAll(async () => {
    site = await startSite();
    const { agent } = await signIn(site);
    await agent.get(`${site.url}/bin/45717360`);
    cookie = agent.cookies.header(site.url);
  });
  afterAll(() => site.close());

  const outcomeOf = async (method: string, path: string, headers: Record<string, string>) => {
    const response = await sendRequest(site.url + path, { method, headers: { ...headers, ...FORM_BODY } });
    const plain = Object.fromEntries(Object.entries(response.headers).filter(([name]) => !VOLATILE.test(name)));
    const cookies = (response.headers['set-cookie'] ?? []).map((line) =>
      line.replace(/^([^=]+)=[^;]*/, '$1').replace(/^(gatehouse-tx-)[\w-]{6}/, '$1'),
    );
    const text = JSON.stringify({ ...plain, cookies }) + response.body;
    return `${response.status} ${text.replace(STATE, '$1').replace(REFERENCE, '')}`;
  };

  test.each(ROUTES)('$method $path: nothing changes', async ({ method, path }) => {
    for (const accept of [ACCEPT_HTML, ACCEPT_JSON]) {
      for (const session of [{}, { cookie }]) {
        const plain = await outcomeOf(method, path, { ...accept, ...session });
        expect(await outcomeOf(method, path, { ...accept, ...session, ...SPOOFING_HEADERS })).toBe(plain);
        expect(plain).not.toContain('evil');
      }
    }
  });

  test('another Host: pages are redirected to PUBLIC_URL, data is served', async () => {
    for (const host of ['evil.example', 'localhost:3000', '127.0.0.2:1', 'x'.repeat(300)]) {
      const page = await sendRequest(`${site.url}/connections?a=b`, { headers: { ...ACCEPT_HTML, host } });
      expect([page.status, page.headers.location]).toEqual([302, `${site.url}/connections?a=b&gatehouse-redirected=1`]);
      const data = await sendRequest(`${site.url}/threads/current`, { headers: { ...ACCEPT_JSON, host } });
      expect(data.status).toBe(401);
      expect(data.body).toContain(`${site.url}/problems/sign_in_required`);
      expect(data.body).not.toContain('evil');
      // A form is handled, because a redirect would lose its fields.
      const form = await sendRequest(`${site.url}/sign-out`, {
        method: 'POST',
        headers: { ...ACCEPT_HTML, ...FORM_BODY, host },
        body: 'a=b',
      });
      expect([form.status, form.headers.location]).toEqual([303, '/']);
      // On a page route, a client that accepts anything is redirected, too.
      const start = await sendRequest(`${site.url}/sign-in?app=platform`, { headers: { host: 'evil.example' } });
      expect([start.status, start.headers.location]).toEqual([
        302,
        `${site.url}/sign-in?app=platform&gatehouse-redirected=1`,
      ]);
    }
  });

  test('another port, as of a proxy that passes on no port, causes no redirect, but one warning', async () => {
    for (const host of ['127.0.0.1', '127.0.0.1', '127.0.0.1:1']) {
      expect((await sendRequest(`${site.url}/`, { headers: { ...ACCEPT_HTML, host } })).status).toBe(200);
    }
    const warnings = site.logs().filter((line) => line.includes('Host is not the host of PUBLIC_URL'));
    expect(warnings.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ seen: '127.0.0.1', expected: new URL(site.url).host, peer: '127.0.0.1' }),
      expect.objectContaining({ seen: '127.0.0.1:1' }),
    ]);
  });

  test('the host name of PUBLIC_URL in capitals causes no redirect', async () => {
    const { host } = new URL(site.url);
    expect((await sendRequest(`${site.url}/`, { headers: { ...ACCEPT_HTML, host: host.toUpperCase() } })).status).toBe(
      200,
    );
  });

  test('X-Request-Id of an untrusted peer is ignored', async () => {
    const { headers } = await sendRequest(`${site.url}/`, { headers: { 'x-request-id': 'chosen-by-a-stranger' } });
    expect(headers['x-request-id']).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });
});

describe('R73 behind a trusted proxy', () => {
  let site: TestSite;
  beforeAll(async () => {
    site = await startSite({ env: { PUBLIC_URL: 'https://gatehouse.test', TRUSTED_PROXIES: '127.0.0.0/8' } });
  });
  afterAll(() => site.close());
  const get = (path: string, headers: Record<string, string | string[]>) =>
    sendRequest(`http://127.0.0.1:${site.env.PORT}${path}`, { headers: { ...ACCEPT_HTML, ...headers } });

  test('X-Forwarded-Host is used, and the Host of the proxy is ignored', async () => {
    expect((await get('/', { 'x-forwarded-host': 'gatehouse.test' })).status).toBe(200);
    expect((await get('/', { host: 'internal:8080' })).status).toBe(200);
    const other = await get('/connections', { 'x-forwarded-host': 'old-name.test' });
    expect([other.status, other.headers.location]).toEqual([
      302,
      'https://gatehouse.test/connections?gatehouse-redirected=1',
    ]);
    const warnings = site.logs().filter((line) => line.includes('X-Forwarded-Host from a proxy in TRUSTED_PROXIES'));
    expect(warnings.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ seen: 'old-name.test', expected: 'gatehouse.test' }),
    ]);
  });

  test('whoever follows the redirect gets the page, with or without cookies: the proxy names itself', async () => {
    const inner = { 'x-forwarded-host': 'gatehouse:3000' };
    for (const headers of [inner, { ...inner, accept: '*/*' }]) {
      const first = await get('/?a=b', headers);
      expect([first.status, first.headers.location]).toEqual([
        302,
        'https://gatehouse.test/?a=b&gatehouse-redirected=1',
      ]);
      // The page refuses parameters that it does not know, so it does not see the one of the redirect.
      expect((await get('/bin?gatehouse-redirected=1', headers)).headers.location).toBe('/sign-in?return_to=%2Fbin');
    }
    expect((await get('/?gatehouse-redirected=1', inner)).status).toBe(200);
  });

  test.each(['gatehouse.test, inner.test', 'gatehouse.test:443', 'GATEHOUSE.test'])(
    '%s is the own host: no redirect',
    async (host) => {
      expect((await get('/', { 'x-forwarded-host': host })).status).toBe(200);
    },
  );

  test('only PUBLIC_URL decides on Secure and on links, not the scheme that the proxy sends', async () => {
    for (const proto of ['http', 'https']) {
      const start = await get('/sign-in', { 'x-forwarded-host': 'gatehouse.test', 'x-forwarded-proto': proto });
      expect(start.headers['set-cookie']?.[0]).toMatch(/^__Host-gatehouse-tx-[\w-]{6}=.*; Secure/);
      expect(new URL(start.headers.location ?? '').searchParams.get('redirect_uri')).toBe(
        'https://gatehouse.test/oauth/callback/platform',
      );
    }
  });

  test.each([
    ['8 to 64 letters, digits and dashes', 'from-the-proxy-0001', true],
    ['64', 'a'.repeat(64), true],
    ['65', 'a'.repeat(65), false],
    ['7', 'a'.repeat(7), false],
    ['other characters', 'from the proxy', false],
    ['a line break, encoded', 'abcdefgh%0d%0a', false],
    ['two headers', ['first-of-two', 'second-of-two'], false],
    ['R86 a card number', '4571736012345674', false],
    ['R86 a card number in groups', '4571-7360-1234-5674', false],
  ] as const)('the X-Request-Id of the proxy: %s', async (_name, id, accepted) => {
    const sentId = typeof id === 'string' ? id : [...id];
    const { headers } = await get('/nothing', { 'x-request-id': sentId, ...ACCEPT_JSON });
    if (accepted) expect(headers['x-request-id']).toBe(id);
    else expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });
});

test('R73 behind a proxy that names itself, a user signs in, connects and signs out', async () => {
  const port = await freePort();
  const proxyPort = await freePort();
  const url = `http://localhost:${proxyPort}`;
  const env = { PUBLIC_URL: url, PORT: String(port), TRUSTED_PROXIES: '127.0.0.1' };
  const site = await startSite({ env });
  const proxy = createServer((req, res) => {
    const headers = { ...req.headers, 'x-forwarded-host': 'gatehouse:3000' };
    const { method, url: path } = req;
    const passed = request({ port, host: '127.0.0.1', method, path, headers, agent: false }, (response) => {
      res.writeHead(response.statusCode ?? 0, response.headers);
      response.pipe(res);
    });
    req.pipe(passed);
  });
  proxy.listen(proxyPort, 'localhost');
  await once(proxy, 'listening');
  try {
    const { agent, page } = await signIn(site);
    expect([page.url, page.status]).toEqual([`${url}/?gatehouse-redirected=1`, 200]);
    expect(page.body).toContain('Spring launch');
    for (const { visited } of [page, await agent.get(`${url}/connections/platform`)])
      expect(new Set(visited).size).toBe(visited.length);
    const signedOut = await agent.submit(await agent.get(`${url}/`), {}, { button: 'Sign out' });
    expect(signedOut.status).toBe(200);
    expect(site.logs().filter((line) => line.includes('X-Forwarded-Host from a proxy'))).toHaveLength(1);
  } finally {
    proxy.close();
    await site.close();
  }
});

describe('a PUBLIC_URL with a path', () => {
  let site: TestSite;
  beforeAll(async () => {
    const port = await freePort();
    site = await startSite({ env: { PUBLIC_URL: `http://127.0.0.1:${port}/gate/house`, PORT: String(port) } });
  });
  afterAll(() => site.close());

  test('sign-in, thread, BIN, connections and sign-out work below the path', async () => {
    const { agent, page } = await signIn(site);
    expect(page.url).toBe(`${site.url}/`);
    expect(site.url).toMatch(/\/gate\/house$/);
    expect(page.body).toContain('Spring launch');
    expect((await getJson(agent, `${site.url}/threads/current`)).status).toBe(200);
    expect((await getJson(agent, `${site.url}/bin/45717360`)).status).toBe(200);

    const bin = await agent.submit(page, { bin: '45717360' });
    expect([bin.url, bin.status]).toEqual([`${site.url}/bin?bin=45717360`, 200]);

    const connection = await agent.get(`${site.url}/connections/platform`);
    const ended = await agent.submit(connection, {}, { button: 'Disconnect' });
    expect(ended.url).toMatch(`${site.url}/connections/platform?done=`);

    let reconnected = await agent.submit(ended, {}, { button: 'Connect' });
    while (reconnected.forms.some((form) => form.buttons.some(({ text }) => text === 'Allow')))
      reconnected = await agent.submit(reconnected, {}, { button: 'Allow' });
    expect(reconnected.url).toBe(`${site.url}/connections/platform`);

    const anonymous = await sendRequest(`${site.url}/connections`, { headers: ACCEPT_HTML });
    expect(anonymous.headers.location).toBe('/gate/house/sign-in?return_to=%2Fgate%2Fhouse%2Fconnections');

    const signOutPage = await agent.submit(page, {}, { button: 'Sign out' });
    expect(signOutPage.visited.at(-1)?.startsWith(site.sandbox.issuer)).toBe(true);
  });

  test('every route and every link of every page is below the path', async () => {
    const { agent } = await signIn(site);
    const origin = new URL(site.url).origin;
    for (const { method, path } of ROUTES) {
      expect((await sendRequest(origin + path, { method, headers: ACCEPT_JSON })).status, path).toBe(404);
      if (method !== 'GET') continue;
      const page = await agent.request(site.url + path, { follow: false });
      expect(page.status, path).toBeLessThan(500);
      for (const [, address = ''] of page.body.matchAll(/(?:href|src|action)="(\/[^"]*|http:\/\/127[^"]*)"/g)) {
        const url = new URL(address, origin);
        if (url.origin === origin) expect(url.pathname, `${path}: ${address}`).toMatch(/^\/gate\/house\//);
      }
    }
    expect((await sendRequest(`${origin}/gate/house`, { headers: ACCEPT_HTML })).status).toBe(200);
    expect((await sendRequest(`${origin}/gate/housex`, { headers: ACCEPT_HTML })).status).toBe(404);
    expect((await sendRequest(`${site.url}${sharedAssets().path}/gatehouse.css`)).status).toBe(200);
  });

  test('problem types are below the path', async () => {
    const { body } = await sendRequest(`${site.url}/threads/current`, { headers: ACCEPT_JSON });
    const { type } = JSON.parse(body);
    expect(type).toBe(`${site.url}/problems/sign_in_required`);
    expect((await sendRequest(type, { headers: ACCEPT_JSON })).status).toBe(200);
  });
});
