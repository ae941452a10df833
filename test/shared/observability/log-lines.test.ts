/** Log lines: each line of a request has its id, and a failed call has app, host and cause. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Collector, startCollector } from '../../support/collector.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';

let collector: Collector;
let site: TestSite;
beforeAll(async () => {
  collector = await startCollector();
  site = await startSite({
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
      ACCESS_LOG: 'on',
      LOG_LEVEL: 'info',
      CONNECTION_CHECK_SECONDS: '2',
    },
    // Expires at once, so that each call refreshes.
    sandbox: { accessTokenSeconds: 1 },
  });
});
afterAll(async () => {
  await site.close();
  await collector.close();
});

type Line = Record<string, unknown>;

const lines = (msg: string): Line[] =>
  site
    .logs()
    .map((line) => JSON.parse(line) as Line)
    .filter((line) => line.msg === msg);

/** Reads the thread within a trace; returns the id of the request and the code of its problem. */
async function readThread(cookie: string) {
  const headers = { ...ACCEPT_JSON, cookie, traceparent: `00-${TRACE}-b7ad6b7169203331-01` };
  const response = await sendRequest(`${site.url}/threads/current`, { headers });
  return { id: String(response.headers['x-request-id']), code: JSON.parse(response.body).code as string | undefined };
}

const startSession = async () => (await signIn(site, undefined, { path: '/sign-in?return_to=/connections' })).agent;
const lineOf = (msg: string, requestId: string) => lines(msg).find((line) => line.requestId === requestId);

test('the lines of a sign-in and a refresh have the ids of their request and trace', async () => {
  const started = await sendRequest(`${site.url}/sign-in`, { headers: ACCEPT_JSON });
  const startLine = lineOf('sign-in started', String(started.headers['x-request-id']));
  expect(startLine).toMatchObject({ app: 'platform', traceId: expect.stringMatching(/^[0-9a-f]{32}$/) });

  const agent = await startSession();
  await expect
    .poll(async () => {
      const { id } = await readThread(agent.cookies.header(site.url));
      return lineOf('refresh ended', id);
    })
    .toMatchObject({
      app: 'platform',
      outcome: 'refreshed',
      traceId: TRACE,
      host: new URL(site.sandbox.issuer).host,
      seconds: expect.any(Number),
    });
});

test('audit entries that are stored together have the ids of their own request and trace', async () => {
  await Promise.all(Array.from({ length: 6 }, startSession));
  const entries = () => lines('audit').filter(({ audit }) => (audit as Line).event === 'sign_in.succeeded');
  await expect.poll(() => entries().length).toBeGreaterThanOrEqual(6);
  for (const { requestId, traceId, audit } of entries()) {
    expect(requestId).toBe((audit as Line).requestId);
    const ended = lines('sign-in ended').find((line) => line.requestId === requestId);
    expect(traceId).toBe(ended?.traceId);
  }
});

test('work outside requests has no request id', async () => {
  await startSession();
  const countBefore = lines('refresh ended').length;
  // The check of the connection, without any call.
  await expect.poll(() => lines('refresh ended').length).toBeGreaterThan(countBefore);
  for (const line of lines('refresh ended').slice(countBefore)) expect(line).not.toHaveProperty('requestId');
});

describe('with ACCESS_LOG, a line for each request', () => {
  const accessOf = (headers: Record<string, unknown>) => lineOf('request', String(headers['x-request-id']));

  test('has method, route, status and duration, and no input of the caller', async () => {
    const cookie = (await startSession()).cookies.header(site.url);
    const path = '/bin/4571736012345678?code=canary-in-query';
    const { headers } = await sendRequest(`${site.url}${path}`, { headers: { ...ACCEPT_JSON, cookie } });
    await expect.poll(() => accessOf(headers)).toBeDefined();

    const { time: _time, level: _level, requestId: _id, seconds, traceId, ...rest } = accessOf(headers) ?? {};
    expect(rest).toEqual({ method: 'GET', route: expect.any(String), status: 400, msg: 'request' });
    expect(seconds).toBeGreaterThan(0);
    expect(traceId).toMatch(/^[0-9a-f]{32}$/);

    const lookup = await sendRequest(`${site.url}/bin/45717360`, { headers: { ...ACCEPT_JSON, cookie } });
    await expect.poll(() => accessOf(lookup.headers)).toMatchObject({ route: '/bin/:bin', status: 200 });
    expect(site.logs().filter((line) => /canary|457173/.test(line))).toEqual([]);
  });

  test('also on the fast path, in the trace of the request', async () => {
    const { id } = await readThread((await startSession()).cookies.header(site.url));
    await expect.poll(() => lineOf('request', id)).toMatchObject({ route: '/threads/current', traceId: TRACE });
  });

  test('which is missing without ACCESS_LOG', async () => {
    const quiet = await startSite();
    await sendRequest(`${quiet.url}/session`, { headers: ACCEPT_JSON });
    await quiet.close();
    expect(quiet.logs().filter((line) => line.includes('"msg":"request"'))).toEqual([]);
  });
});

describe('a failed call has app, host and cause', () => {
  test.each([
    ['a status', 'unavailable', 'platform_error', { detail: 'the platform responded with 503' }],
    ['a connection', 'reset', 'platform_error', { detail: expect.stringContaining('ECONNRESET') }],
    ['a body that ends early', 'truncated', 'platform_error', { detail: 'the response of the platform broke off' }],
  ] as const)('of the platform: %s', async (_name, kind, code, cause) => {
    const cookie = (await startSession()).cookies.header(site.url);
    const clearFault = site.sandbox.faults.set({ listener: 'platform', kind });
    const { host } = new URL(site.sandbox.platformUrl);
    const response = await readThread(cookie).catch(() => undefined);
    clearFault();
    const line = response ? lineOf('request failed', response.id) : lines('request failed').at(-1);
    expect(line).toMatchObject({ code, app: 'platform', host, traceId: TRACE, ...cause });
  });

  test('of the provider at a refresh and at a sign-in', async () => {
    const cookie = (await startSession()).cookies.header(site.url);
    const { host } = new URL(site.sandbox.issuer);
    const clearFault = site.sandbox.faults.set({ listener: 'identity-provider', kind: 'unavailable' });
    await expect.poll(async () => (await readThread(cookie)).code).toBe('provider_unavailable');

    const refreshed = lines('refresh ended').findLast(({ outcome }) => outcome === 'unavailable');
    expect(refreshed).toMatchObject({ app: 'platform', host, reason: expect.stringContaining('status_503') });

    const refused = lines('request failed').findLast(({ code }) => code === 'provider_unavailable');
    expect(refused).toMatchObject({ app: 'platform', host, detail: 'provider_unavailable', traceId: TRACE });

    await site.restart();
    const response = await sendRequest(`${site.url}/sign-in`, { headers: ACCEPT_JSON });
    clearFault();
    expect(lineOf('request failed', String(response.headers['x-request-id']))).toMatchObject({
      app: 'platform',
      host,
      detail: expect.stringContaining('503'),
    });
  });
});
