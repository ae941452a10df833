/** The responses of the fast path equal those of Express. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';

let site: TestSite;
let cookie: string;
beforeAll(async () => {
  site = await startSite();
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
});
afterAll(() => site.close());
afterEach(() => site.sandbox.faults.clear());

/** A Content-Length keeps a request off the fast path. */
const sendOnBothPaths = (path: string, headers: Record<string, string>): Promise<ReceivedResponse[]> =>
  Promise.all(
    [{}, { 'content-length': '0' }].map((added) => sendRequest(site.url + path, { headers: { ...headers, ...added } })),
  );

const comparablePartOf = ({ status, headers, body }: ReceivedResponse) => {
  const { date: _date, 'x-request-id': id, ...rest } = headers;
  return { status, body: body.replaceAll(String(id), 'ID'), headers: rest };
};

describe('R68, R69: the same response with the same headers on both paths', () => {
  test.each([
    ['a thread', '/threads/current', 200],
    ['a BIN', '/bin/45717360', 200],
    ['a BIN of 6 digits', '/bin/457173', 200],
    ['an unknown app', '/threads/current?app=nobody', 404],
  ])('%s', async (_name, path, status) => {
    const [fast, express] = await sendOnBothPaths(path, { cookie, ...ACCEPT_JSON });
    expect(fast?.status).toBe(status);
    if (fast && express) expect(comparablePartOf(fast)).toEqual(comparablePartOf(express));
    expect(fast?.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });

  test.each(['/threads/current', '/bin/45717360'])('%s without a session', async (path) => {
    const [fast, express] = await sendOnBothPaths(path, ACCEPT_JSON);
    expect(fast?.status).toBe(401);
    expect(fast?.headers['proxy-status']).toBe('gatehouse; error=http_request_denied');
    if (fast && express) expect(comparablePartOf(fast)).toEqual(comparablePartOf(express));
  });

  test('no header is repeated', async () => {
    const { rawHeaders } = await sendRequest(`${site.url}/threads/current`, { headers: { cookie, ...ACCEPT_JSON } });
    const names = rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
    expect(names).toEqual([...new Set(names)]);
  });
});

test.each(['/threads/current', '/bin/45717360', '/relay/threads/current', '/relay/bin/45717360'])(
  'R89: a request is counted for its address once, on both paths: %s',
  async (path) => {
    const limited = await startSite({ env: { RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '4' } });
    try {
      const statuses: number[] = [];
      for (const added of [{}, { 'content-length': '0' }, {}, { 'content-length': '0' }, {}, { 'content-length': '0' }])
        statuses.push((await sendRequest(limited.url + path, { headers: { ...ACCEPT_JSON, ...added } })).status);
      expect(statuses).toEqual([401, 401, 401, 401, 429, 429]);
    } finally {
      await limited.close();
    }
  },
);

describe('R85: anything but a plain BIN goes through Express, which has the guard against card numbers', () => {
  test.each([
    ['9 digits', '/bin/457173601'],
    ['a card number', '/bin/4571736000000000'],
    ['5 digits', '/bin/45717'],
    ['other digits', '/bin/%D9%A4%D9%A5%D9%A7%D9%A1%D9%A7%D9%A3'],
    ['a space', '/bin/457173%2060'],
  ])('%s', async (_name, path) => {
    const { status, body } = await sendRequest(site.url + path, { headers: { cookie, ...ACCEPT_JSON } });
    expect([status, JSON.parse(body).code]).toEqual([400, 'invalid_bin']);
  });

  test.each([
    '/bin/45717360?x=4571736000000000',
    '/bin/45717360?x=%34571736000000000',
    '/threads/current?x=%34111111111111111',
    '/threads/current?x=4111%2B1111+1111%201111',
    '/threads/current?x=%2534111111111111111',
  ])('a card number in the query, however it is encoded: %s', async (path) => {
    const [fast, express] = await sendOnBothPaths(path, { cookie, ...ACCEPT_JSON });
    expect([fast?.status, express?.status]).toEqual([400, 400]);
  });

  test('a path that only begins like one of the fast path', async () => {
    for (const path of ['/binx/45717360', '/bin45717360', '/bin/45717360/more', '/threads/currently']) {
      expect((await sendRequest(site.url + path, { headers: { cookie, ...ACCEPT_JSON } })).status, path).toBe(404);
    }
  });
});

test('R76: leaves out a header of the platform that cannot be sent on', async () => {
  site.sandbox.faults.set({
    listener: 'platform',
    kind: 'response',
    status: 200,
    body: '{}',
    headers: { 'Content-Language': Buffer.from('€', 'utf8').toString('latin1'), ETag: '"v1"' },
  });
  const { status, headers } = await sendRequest(`${site.url}/threads/current`, { headers: { cookie, ...ACCEPT_JSON } });
  expect([status, headers.etag]).toEqual([200, '"v1"']);
});
