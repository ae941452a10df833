/** Failures of real routes: the exact document for programs, and the page for users with a reference that is in the log. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PROBLEMS, type ProblemCode } from '../../../src/shared/errors.ts';
import { problemText } from '../../../src/shared/pages/problem-texts.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, ACCEPT_JSON, JSON_BODY, sendRequest } from '../../support/send-request.ts';

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

const FAILURES: [ProblemCode, string, () => { method?: string; headers?: Record<string, string>; body?: string }][] = [
  ['sign_in_required', '/threads/current', () => ({})],
  ['invalid_bin', '/bin/12345', () => ({ headers: { cookie } })],
  ['not_found', '/nowhere', () => ({})],
  ['not_found', '/connections/unknown', () => ({ headers: { cookie } })],
  ['not_found', '/problems/unknown', () => ({})],
  ['not_found', '/problems/constructor', () => ({})],
  ['method_not_allowed', '/session', () => ({ method: 'PUT' })],
  ['csrf_failed', '/connections/platform', () => ({ method: 'POST', headers: { cookie } })],
  ['length_required', '/bin', () => ({ method: 'POST', headers: { 'transfer-encoding': 'chunked' } })],
  ['too_large', '/bin', () => ({ method: 'POST', headers: { cookie, ...JSON_BODY }, body: `"${'x'.repeat(70_000)}"` })],
  [
    'invalid_request',
    '/bin',
    () => ({ method: 'POST', headers: { cookie, ...JSON_BODY, 'x-csrf-token': csrf }, body: '{' }),
  ],
  ['invalid_request', '/threads/current?app=a&app=b', () => ({ headers: { cookie } })],
  ['invalid_request', '/connections/%ff', () => ({ headers: { cookie } })],
  ['invalid_request', '/oauth/callback/platform?state=x', () => ({})],
];

describe('problem documents (RFC 9457)', () => {
  test.each(FAILURES)('%s at %s', async (code, path, requestOf) => {
    const { headers, ...rest } = requestOf();
    const {
      status,
      headers: responseHeaders,
      body,
    } = await sendRequest(site.url + path, { ...rest, headers: { ...ACCEPT_JSON, ...headers } });
    const id = responseHeaders['x-request-id'];
    expect(status).toBe(PROBLEMS[code].status);
    expect(responseHeaders['content-type']).toBe('application/problem+json; charset=utf-8');

    const { detail, connectUrl, ...fixed } = JSON.parse(body);
    expect(fixed).toEqual({
      type: `${site.url}/problems/${code}`,
      title: PROBLEMS[code].title,
      status: PROBLEMS[code].status,
      instance: `urn:uuid:${id}`,
      code,
    });
    expect(detail).toMatch(/^[A-Z].*\.$/);
    expect(connectUrl).toBe(code === 'sign_in_required' ? `${site.url}/sign-in` : undefined);
    expect((await sendRequest(fixed.type, { headers: ACCEPT_JSON })).status).toBe(200);
  });

  test('have the URL at which a user must connect', async () => {
    const { agent } = await signIn(site, 'second@example.test');
    const page = await agent.get(`${site.url}/connections/platform`);
    await agent.submit(page, {}, { button: 'Disconnect' });
    const { status, json } = await getJson(agent, `${site.url}/threads/current`);
    expect({ status, code: json.code, connectUrl: json.connectUrl }).toEqual({
      status: 403,
      code: 'not_connected',
      connectUrl: `${site.url}/connections/platform`,
    });
  });
});

describe('error pages', () => {
  test.each(FAILURES)(
    '%s at %s: explains the failure, and the log has its request id, which ends with the reference if there is one',
    async (code, path, requestOf) => {
      const { headers, ...rest } = requestOf();
      const {
        status,
        headers: responseHeaders,
        body,
      } = await sendRequest(site.url + path, { ...rest, headers: { ...ACCEPT_HTML, ...headers } });
      if (code === 'sign_in_required') return expect(status).toBe(401);
      expect([status, responseHeaders['content-type']]).toEqual([PROBLEMS[code].status, 'text/html; charset=utf-8']);

      const requestId = String(responseHeaders['x-request-id']);
      const [, reference] = /data-copy-source>([^<]*)</.exec(body) ?? [];
      if (reference !== undefined) expect(reference).toBe(requestId.slice(-8));
      const lines = site.logs().filter((line) => line.includes(requestId));
      const requests = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request failed');
      expect(requests).toEqual([expect.objectContaining({ msg: 'request failed', requestId, code, status })]);
      expect(body.includes('Who can help')).toBe(problemText(code).helper !== 'you');
      // None of these requests met something broken.
      expect(body).toContain('error-mark icon icon-info');
      expect(body).toMatch(/<a [^>]*href="(http[^"]*)?\/"[^>]*>(Go to the start page|Look up other digits)</);
      const isOfUser = body.includes('Signed in as') && responseHeaders['referrer-policy'] !== 'no-referrer';
      expect(body.includes('action="/sign-out?return_to=%2F"')).toBe(isOfUser);
      expect(/\d{4} at \d\d:\d\d UTC/.test(body)).toBe(reference !== undefined);
      expect(body.replace(/<[^>]*>/g, ' ')).not.toMatch(
        /\b(Content-Length|GET|POST|HEAD|Allowed here|JSON|token|undefined)\b/,
      );
    },
  );

  test('the page of a failed callback has no form that the CSRF check would refuse', async () => {
    const { body, headers } = await sendRequest(`${site.url}/oauth/callback/platform?state=x`, {
      headers: { ...ACCEPT_HTML, cookie },
    });
    expect(headers['referrer-policy']).toBe('no-referrer');
    expect(body).not.toContain('<form');
    expect(body).toContain('Uma Okafor');
  });
});

test('only the page of a failure of a system has the alarm', async () => {
  const clearFault = site.sandbox.faults.set({ listener: 'platform', kind: 'error' });
  const { status, body } = await sendRequest(`${site.url}/threads/current`, {
    headers: { ...ACCEPT_HTML, cookie },
  }).finally(clearFault);
  expect(status).toBe(502);
  expect(body).toContain('error-mark icon icon-warning');
  expect(body).toContain('The operator of the platform.');
});

describe('/problems/{code}', () => {
  test.each(Object.keys(PROBLEMS) as ProblemCode[])('%s is explained to users and programs', async (code) => {
    const page = await sendRequest(`${site.url}/problems/${code}`, { headers: ACCEPT_HTML });
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.body).toContain(`<code>${code}</code>`);
    for (const words of ['What to do', 'Who can help', 'href="/"']) expect(page.body).toContain(words);

    const data = await sendRequest(`${site.url}/problems/${code}`, { headers: ACCEPT_JSON });
    expect(JSON.parse(data.body)).toEqual({ type: `${site.url}/problems/${code}`, code, ...PROBLEMS[code] });
  });
});

test('the reference of a thread panel that failed on the home page is in the log', async () => {
  const clearFault = site.sandbox.faults.set({ listener: 'platform', kind: 'error' });
  const { status, body, headers } = await sendRequest(`${site.url}/`, { headers: { ...ACCEPT_HTML, cookie } }).finally(
    clearFault,
  );
  expect(status).toBe(200);

  const [, reference = ''] = /class="reference-small">([^<]*)</.exec(body) ?? [];
  expect(String(headers['x-request-id']).endsWith(reference)).toBe(true);
  expect(site.logs().some((line) => line.includes(reference))).toBe(true);
});
