/** Cookies and sessions in a browser, including hostile cookies. */

import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sign } from 'cookie-signature';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { DATABASE_FILE } from '../../../src/shared/storage/sqlite/store.ts';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { getJson, PASSWORD, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ROUTES } from '../../support/routes.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site));
});
afterAll(() => site.close());

/** The Set-Cookie lines of every route, requested with and without a session, as a page and as data. */
async function cookieLines(origin: string, cookie: string, headers: Record<string, string> = {}): Promise<string[]> {
  const lines: string[] = [];
  for (const { method, path } of ROUTES) {
    for (const session of ['', cookie]) {
      for (const accept of [ACCEPT_HTML, ACCEPT_JSON]) {
        const response = await sendRequest(origin + path, {
          method,
          headers: { ...headers, ...accept, ...FORM_BODY, ...(session === '' ? {} : { cookie: session }) },
          ...(method === 'POST' ? { body: 'a=b' } : {}),
        });
        lines.push(...(response.headers['set-cookie'] ?? []));
      }
    }
  }
  return lines;
}

/** The names of the cookies; the random part of those with the browser's secrets differs. */
const namesIn = (lines: readonly string[]) =>
  new Set(lines.map((line) => line.split('=')[0]?.replace(/^(__Host-)?gatehouse-tx-[\w-]{6}(\.\d+)?$/, 'the secret')));

const isOfEarlierSecret = (line: string) => /^[^;]+\.earlier\./.test(line);

describe('R53 cookies', () => {
  test('on plain-http loopback: HttpOnly, Lax, whole site, no Domain, small, Max-Age only for earlier secrets', async () => {
    const lines = await cookieLines(site.url, agent.cookies.header(site.url));
    lines.push(
      ...agent.cookies
        .all()
        .filter(({ name }) => name.startsWith('gatehouse'))
        .map(({ line }) => line),
    );
    expect(namesIn(lines)).toEqual(new Set([sessionCookieName(site.url), 'the secret']));
    expect(lines.filter(isOfEarlierSecret)).toHaveLength(1);
    for (const line of lines) {
      expect(line).toMatch(/; Path=\//);
      expect(line).toMatch(/; HttpOnly/);
      expect(line).toMatch(/; SameSite=Lax/);
      if (isOfEarlierSecret(line)) expect(line).toContain('; Max-Age=1200; ');
      // A cleared cookie has an expiry date in the past.
      const unset = line.replace(/(?<==; Path=\/); Expires=Thu, 01 Jan 1970 00:00:00 GMT/, '');
      const attributes = isOfEarlierSecret(line) ? unset.replaceAll(/; (Max-Age|Expires)=[^;]*/g, '') : unset;
      expect(attributes).not.toMatch(/; (Domain|Max-Age|Expires|Secure)/i);
      expect(line.length).toBeLessThanOrEqual(4096);
    }
  });

  test('with an https PUBLIC_URL: __Host- and Secure, even on a plain listener without a proxy header', async () => {
    const secure = await startSite({ env: { PUBLIC_URL: 'https://gatehouse.test' } });
    try {
      const listener = `http://127.0.0.1:${secure.env.PORT}`;
      const host = { host: 'gatehouse.test' };
      const started = await sendRequest(`${listener}/sign-in`, { headers: { ...host, ...ACCEPT_HTML } });
      const [tx = ''] = started.headers['set-cookie'] ?? [];

      const browser = createUserAgent({ stopAt: (url) => url.startsWith('https://gatehouse.test/') });
      let page = await browser.get(started.headers.location ?? '');
      page = await browser.submit(page, { login: 'user@example.test', password: PASSWORD });
      while (page.status !== 0) page = await browser.submit(page, {}, { button: 'Allow' });
      const { pathname, search } = new URL(page.url);
      const ended = await sendRequest(`${listener}${pathname}${search}`, {
        headers: { ...host, ...ACCEPT_HTML, cookie: tx.split(';')[0] ?? '' },
      });
      expect(ended).toMatchObject({ status: 303 });

      const session = ended.headers['set-cookie']?.find((line) => line.startsWith('__Host-gatehouse=')) ?? '';
      const cookie = session.split(';')[0] ?? '';
      expect(await sendRequest(`${listener}/session`, { headers: { ...host, ...ACCEPT_JSON, cookie } })).toMatchObject({
        body: expect.stringContaining('"signedIn":true'),
      });

      const lines = [tx, session, ...(await cookieLines(listener, cookie, host))];
      expect(namesIn(lines)).toEqual(new Set(['__Host-gatehouse', 'the secret']));

      for (const line of lines) {
        expect(line).toMatch(/; Path=\/(;|$)/);
        expect(line).toMatch(/; Secure/);
        expect(line).toMatch(/; HttpOnly/);
        expect(line).toMatch(/; SameSite=Lax/);
        expect(line).not.toMatch(/; (Domain|Max-Age)/i);
      }
    } finally {
      await secure.close();
    }
  });
});

/** All stored rows except the leases of scheduled tasks. */
function storedRows(directory: string): string[] {
  const database = new DatabaseSync(join(directory, DATABASE_FILE), { readOnly: true });
  try {
    return ['records', 'index_members', 'counters', 'log_entries', 'notices'].flatMap((table) =>
      database
        .prepare(`SELECT * FROM ${table}`)
        .all()
        .map((row) => `${table} ${JSON.stringify(row)}`),
    );
  } finally {
    database.close();
  }
}

test('R54 10,000 anonymous requests leave no cookie and nothing in the store', async () => {
  const emptySite = await startSite();
  const paths = [
    '/',
    '/session',
    '/problems/not_found',
    '/oauth/callback/platform?state=x&code=y',
    // With an `error`, a callback leaves a record (`unmatched-responses.test.ts`).
    '/oauth/callback/platform?code=y',
    '/nothing',
    '/threads/current',
    '/connections',
    '/bin/45717360',
  ];
  // A scheduled task stores the registration of the app once.
  await until(() => storedRows(emptySite.dataDirectory).some((row) => row.includes('app-registration:')));
  const rowsBefore = storedRows(emptySite.dataDirectory);
  // Small enough for a slow machine: an overloaded process refuses requests.
  const BATCH = 25;
  // Raw sockets, because an HTTP client would take as long as Gatehouse itself.
  const sendAll = async (count: number) => {
    const { hostname, port, host } = new URL(emptySite.url);
    const head = `HTTP/1.1\r\nHost: ${host}\r\nAccept: ${ACCEPT_HTML.accept}\r\n`;
    const socket = connect(Number(port), hostname).setEncoding('latin1');
    const ended = once(socket, 'close');
    let responses = 0;
    let cookies = 0;
    let unmatchedText = '';
    socket.on('data', (text: string) => {
      const received = unmatchedText + text;
      responses += received.match(/HTTP\/1\.1 \d{3}/g)?.length ?? 0;
      cookies += received.match(/\nset-cookie:/gi)?.length ?? 0;
      // Shorter than both patterns, so no match is counted twice.
      unmatchedText = received.slice(-11);
    });
    for (let sent = 0; sent < count; sent += BATCH) {
      const lines = Array.from({ length: BATCH }, (_, index) => `GET ${paths[(sent + index) % paths.length]} ${head}`);
      socket.write(`${lines.join('\r\n')}${sent + BATCH < count ? '' : 'Connection: close\r\n'}\r\n`);
      await until(() => responses >= sent + BATCH);
    }
    await ended;
    expect([responses, cookies]).toEqual([count, 0]);
  };
  try {
    await Promise.all(Array.from({ length: 8 }, () => sendAll(1_250)));
    // Background writes are finished after a restart.
    await emptySite.restart();
    expect(storedRows(emptySite.dataDirectory)).toEqual(rowsBefore);
  } finally {
    await emptySite.close();
  }
});

describe('R59 bad cookies are anonymous, cheap and never a 500', () => {
  const name = () => sessionCookieName(site.url);
  const sessionCookie = () => agent.cookies.get(name()) ?? '';
  const BAD_COOKIES: [string, () => string][] = [
    ['a lone percent', () => `${name()}=%; %=%; ${name()}-tx=%`],
    ['separators only', () => '=;;;=;,;=='],
    ['200 names', () => Array.from({ length: 200 }, (_, index) => `n${index}=v`).join('; ')],
    ['15 KB', () => `${name()}=s%3A${'x'.repeat(15_000)}.${'y'.repeat(43)}`],
    ['a forged signature', () => `${name()}=${sessionCookie().slice(0, -4)}AAAA`],
    [
      'a signature of another secret',
      () => `${name()}=${encodeURIComponent(`s:${sign('guessed', 'another secret of 32 characters')}`)}`,
    ],
    ['no signature', () => `${name()}=s%3Aabcdef`],
    ['an empty id', () => `${name()}=s%3A.abc`],
    ['prototype names', () => `__proto__=1; constructor=2; hasOwnProperty=3; ${name()}=toString`],
    ['a chunk counter', () => `${name()}.0=a; ${name()}.99999999=b; ${name()}-chunks=99999999`],
    [
      'a forged cookie before the valid one',
      () => `${name()}=s%3Aforged.${'y'.repeat(43)}; ${name()}=${sessionCookie()}`,
    ],
    ['bytes above ASCII', () => `${name()}=\u00ff\u00fe`],
    [
      'the other cookie in its place',
      () => `${name()}=s%3A${agent.cookies.all().find((cookie) => cookie.name.includes('-tx-'))?.value}`,
    ],
    ['quotes', () => `${name()}="s%3A`],
  ];

  test.each(BAD_COOKIES)('%s', async (_name, cookie) => {
    const url = `${site.url}/session`;
    // The fastest of five requests, since a busy machine can slow down any of them.
    const times: number[] = [];
    for (let n = 0; n < 5; n += 1) {
      const elapsed = startStopwatch();
      const response = await sendRequest(url, { headers: { cookie: cookie() } });
      times.push(elapsed());
      expect({ status: response.status, body: response.body }).toEqual({ status: 200, body: '{"signedIn":false}' });
    }
    expect(Math.min(...times)).toBeLessThan(50);

    for (const { method, path } of ROUTES) {
      const response = await sendRequest(site.url + path, { method, headers: { ...ACCEPT_JSON, cookie: cookie() } });
      expect(response.status, `${method} ${path}`).toBeLessThan(500);
    }
    const callback = await sendRequest(`${site.url}/oauth/callback/platform?state=x&code=y`, {
      headers: { cookie: cookie() },
    });
    expect(callback.status).toBe(400);
  });

  test('a valid cookie still works', async () => {
    expect((await getJson(agent, `${site.url}/session`)).json.signedIn).toBe(true);
  });
});

describe('R60 the session id', () => {
  test('is long, new at every sign-in, and only in the cookie', async () => {
    const ids = new Set<string>();
    for (let count = 0; count < 3; count += 1) {
      const session = await signIn(site, 'second@example.test', { agent });
      ids.add(session.agent.cookies.get(sessionCookieName(site.url)) ?? '');
    }
    expect(ids.size).toBe(3);

    for (const value of ids) {
      const [id = ''] = decodeURIComponent(value).replace(/^s:/, '').split('.');
      expect(id.length).toBeGreaterThanOrEqual(22);
      expect(site.logs().join('')).not.toContain(id);
    }
    const [id = ''] = decodeURIComponent(agent.cookies.get(sessionCookieName(site.url)) ?? '')
      .replace(/^s:/, '')
      .split('.');
    for (const { path } of ROUTES.filter(({ method }) => method === 'GET')) {
      const page = await agent.request(site.url + path, { follow: false });
      expect(`${page.headers.get('location')} ${page.body}`, path).not.toContain(id);
    }
    // It is not accepted in the URL.
    const cookie = agent.cookies.get(sessionCookieName(site.url)) ?? '';
    for (const query of [`${sessionCookieName(site.url)}=${cookie}`, `sid=${cookie}`]) {
      expect(JSON.parse((await sendRequest(`${site.url}/session?${query}`)).body)).toMatchObject({
        code: 'invalid_request',
      });
    }
  });
});

test('R63 the redirect of a sign-in has the session cookie', async () => {
  const newAgent = createUserAgent();
  const { agent: signedIn } = await signIn(site, 'user@example.test', { agent: newAgent });
  const line = signedIn.cookies.all().find(({ name }) => name === sessionCookieName(site.url))?.line;
  expect(line).toContain('HttpOnly');

  const streamed = await signedIn.get(`${site.url}/threads/current`);
  expect(streamed.status).toBe(200);
  expect((await getJson(signedIn, `${site.url}/session`)).json.signedIn).toBe(true);
});
