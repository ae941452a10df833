/** The short way past Express: nobody can tell from outside which way a request went. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Asked, ask, DATA } from '../support/ask.ts';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';

let site: TestSite;
let cookie: string;
beforeAll(async () => {
  site = await startSite();
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
});
afterAll(() => site.close());
afterEach(() => site.sandbox.faults.clear());

/** A length is unusual for a GET: with it the request goes through Express. */
const bothWays = (path: string, headers: Record<string, string>): Promise<Asked[]> =>
  Promise.all(
    [{}, { 'content-length': '0' }].map((more) => ask(site.url + path, { headers: { ...headers, ...more } })),
  );

const comparable = ({ status, headers, body }: Asked) => {
  const { date: _date, 'x-request-id': id, ...rest } = headers;
  return { status, body: body.replaceAll(String(id), 'ID'), headers: rest };
};

describe('R68, R69: the same answer with the same headers on either way', () => {
  test.each([
    ['a thread', '/threads/current', 200],
    ['a BIN', '/bin/45717360', 200],
    ['a BIN of 6 digits', '/bin/457173', 200],
    ['an app that nobody knows', '/threads/current?app=nobody', 404],
  ])('%s', async (_name, path, status) => {
    const [short, long] = await bothWays(path, { cookie, ...DATA });
    expect(short?.status).toBe(status);
    if (short && long) expect(comparable(short)).toEqual(comparable(long));
    expect(short?.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });

  test.each(['/threads/current', '/bin/45717360'])('%s without a session', async (path) => {
    const [short, long] = await bothWays(path, DATA);
    expect(short?.status).toBe(401);
    expect(short?.headers['proxy-status']).toBe('gatehouse; error=http_request_denied');
    if (short && long) expect(comparable(short)).toEqual(comparable(long));
  });

  test('no header comes twice', async () => {
    const { rawHeaders } = await ask(`${site.url}/threads/current`, { headers: { cookie, ...DATA } });
    const names = rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
    expect(names).toEqual([...new Set(names)]);
  });
});

test.each(['/threads/current', '/bin/45717360', '/relay/threads/current', '/relay/bin/45717360'])(
  'R89: a request is counted for its address once, on either way: %s',
  async (path) => {
    const limited = await startSite({ env: { RATE_LIMIT_PER_ADDRESS: '4' } });
    try {
      const statuses: number[] = [];
      for (const more of [{}, { 'content-length': '0' }, {}, { 'content-length': '0' }, {}, { 'content-length': '0' }])
        statuses.push((await ask(limited.url + path, { headers: { ...DATA, ...more } })).status);
      expect(statuses).toEqual([401, 401, 401, 401, 429, 429]);
    } finally {
      await limited.close();
    }
  },
);

describe('R85: what is no plain BIN goes the long way, where the guard against card numbers stands', () => {
  test.each([
    ['9 digits', '/bin/457173601'],
    ['a card number', '/bin/4571736000000000'],
    ['5 digits', '/bin/45717'],
    ['other digits', '/bin/%D9%A4%D9%A5%D9%A7%D9%A1%D9%A7%D9%A3'],
    ['a space', '/bin/457173%2060'],
  ])('%s', async (_name, path) => {
    const { status, body } = await ask(site.url + path, { headers: { cookie, ...DATA } });
    expect([status, JSON.parse(body).code]).toEqual([400, 'invalid_bin']);
  });

  test('a card number in the query of a BIN', async () => {
    const { status } = await ask(`${site.url}/bin/45717360?x=4571736000000000`, { headers: { cookie, ...DATA } });
    expect(status).toBe(400);
  });

  test('what only begins like a path that goes the short way', async () => {
    for (const path of ['/binx/45717360', '/bin45717360', '/bin/45717360/more', '/threads/currently']) {
      expect((await ask(site.url + path, { headers: { cookie, ...DATA } })).status, path).toBe(404);
    }
  });
});

test('R76: a header of the platform that cannot be sent on is left out, and fails nothing', async () => {
  site.sandbox.faults.set({
    on: 'platform',
    kind: 'answer',
    status: 200,
    body: '{}',
    headers: { 'Content-Language': Buffer.from('€', 'utf8').toString('latin1'), ETag: '"v1"' },
  });
  const { status, headers } = await ask(`${site.url}/threads/current`, { headers: { cookie, ...DATA } });
  expect([status, headers.etag]).toEqual([200, '"v1"']);
});
