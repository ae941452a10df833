/** R85 and R86: a whole card number, in any part of a request to any route, is never stored, returned or sent on. */
import { readdirSync, readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decodedForms } from '../../../src/shared/http/card-numbers.ts';
import { createLogger } from '../../../src/shared/observability/logger.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { type OutboundRecorder, recordOutbound } from '../../support/outbound-recorder.ts';
import { type ListedRoute, ROUTES } from '../../support/routes.ts';
import {
  ACCEPT_HTML,
  ACCEPT_JSON,
  FORM_BODY,
  JSON_BODY,
  type RequestDetails,
  sendRequest,
} from '../../support/send-request.ts';

const CARD = '4571736012345674';
const GROUPED = '4571 7360 1234 5674';
const DASHED = '4571-7360-1234-5674';
const ESCAPED = [...CARD].map((digit) => `%3${digit}`).join('');
const TWICE = ESCAPED.replaceAll('%', '%25');
const WIDE = [...CARD].map((digit) => String.fromCharCode(0xff10 + Number(digit))).join('');
const SPELLINGS = [
  CARD,
  encodeURIComponent(GROUPED),
  GROUPED.replaceAll(' ', '+'),
  DASHED,
  ESCAPED,
  TWICE,
  encodeURIComponent(WIDE),
];
const QUERY_NAMES = 'app return_to scope done state code error error_description iss x'.split(' ');
/** Covers all pairs of these choices: own or other host, page or data, with or without a session. */
const SENDING_WAYS = [
  { ...ACCEPT_HTML },
  { ...ACCEPT_JSON, cookie: '' },
  { ...ACCEPT_JSON, host: 'localhost:1' },
  { ...ACCEPT_HTML, host: 'localhost:1', cookie: '' },
];
/** Nine consecutive digits, in any spelling, are too many. */
const FORBIDDEN_TEXTS = [
  CARD.slice(0, 9),
  CARD.slice(-9),
  GROUPED,
  GROUPED.replaceAll(' ', '+'),
  DASHED,
  ESCAPED.slice(0, 27),
  TWICE.slice(0, 40),
  WIDE.slice(0, 9),
  '4571%207360%201234',
  '%EF%BC%94%EF%BC%95%EF%BC%97%EF%BC%91',
];

// The test sends thousands of requests: a connection for each would cost more than the responses.
const agent = new Agent({ keepAlive: true });
let recorder: OutboundRecorder;
let site: TestSite;
let cookie: string;
let csrf: string;
beforeAll(async () => {
  recorder = recordOutbound();
  // Otherwise the limits would refuse most of these requests.
  const unlimited = {
    RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '0',
    RATE_LIMIT_PER_SESSION_PER_MINUTE: '0',
    RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE: '0',
  };
  site = await startSite({ env: { LOG_LEVEL: 'trace', ...unlimited } });
  const { agent: browser } = await signIn(site);
  cookie = browser.cookies.header(site.url);
  csrf = String((await getJson(browser, `${site.url}/session`)).json.csrfToken);
});
afterAll(async () => {
  agent.destroy();
  recorder.stop();
  await site.close();
});

function expectNoCardNumber(text: string, where: string): void {
  for (const needle of FORBIDDEN_TEXTS) {
    const at = text.indexOf(needle);
    if (at >= 0) expect.fail(`${where} holds "${text.slice(Math.max(0, at - 60), at + 60)}"`);
  }
}

/** The plain spellings, and one other in rotation: over all routes, every place gets every spelling. */
function spellingsAt(turn: number): string[] {
  const [plain = '', grouped = '', ...others] = SPELLINGS;
  return [plain, grouped, others[turn % others.length] ?? ''];
}

/** At every route, each place gets the plain spelling in every way, and another spelling in one way, in rotation. */
const waysOf = (digits: unknown, turn: number) =>
  digits === CARD ? SENDING_WAYS : SENDING_WAYS.filter((_way, at) => at === turn % SENDING_WAYS.length);

/** A request with digits in one place. */
interface Attempt {
  /** The place of the digits, in words. */
  place: string;
  path: string;
  request: RequestDetails;
  ways: typeof SENDING_WAYS;
}

/** Returns an attempt for each place of a request to this route that can hold the digits. */
function* attemptsAt({ method, path, pattern }: ListedRoute, turn: number): Generator<Attempt> {
  // Signing out or deleting the account would end the session that the requests need.
  const endsSession = pattern.startsWith('/sign-out') || pattern === '/account/delete';
  const change = method === 'POST' && !endsSession ? { 'x-csrf-token': csrf } : {};
  const base = { cookie, ...change };
  const bodies = method === 'POST' ? ['_csrf', 'bin', 'scope', 'return_to', 'app', 'x'] : [];
  for (const [at, digits] of SPELLINGS.entries()) {
    const ways = waysOf(digits, turn + at);
    const request = { headers: base };
    const hasParameter = pattern.includes(':');
    const pathWithDigits = hasParameter ? pattern.replace(/:\w+/g, digits) : `${path.replace(/\/$/, '')}/${digits}`;
    yield { place: 'path', path: pathWithDigits, request, ways };
    yield { place: 'query name', path: `${path}?${digits}=${digits}`, request, ways };
  }
  for (const [at, name] of QUERY_NAMES.entries()) {
    for (const digits of spellingsAt(turn + at)) {
      const value = name === 'return_to' ? `%2Fconnections%3Fx%3D${digits}` : digits;
      yield {
        place: `query ${name}`,
        path: `${path}?${name}=${value}`,
        request: { headers: base },
        ways: waysOf(digits, turn + at),
      };
    }
  }
  for (const [at, name] of bodies.entries()) {
    for (const digits of spellingsAt(turn + at)) {
      const value = name === 'return_to' ? `%2Fconnections%3Fx%3D${digits}` : digits;
      const request = { headers: { ...base, ...FORM_BODY }, body: `${name}=${value}` };
      yield { place: `form ${name}`, path, request, ways: waysOf(digits, turn + at) };
    }
  }
  if (method === 'POST') {
    for (const [at, value] of [CARD, GROUPED, DASHED, Number(CARD), [CARD], { bins: CARD }].entries()) {
      for (const body of [
        { bins: [value] },
        { bins: value },
        { bin: value },
        { return_to: `/x?${value}` },
        { scope: value },
        { [CARD]: value },
      ]) {
        const request = { headers: { ...base, ...JSON_BODY }, body: JSON.stringify(body) };
        yield { place: 'JSON', path, request, ways: waysOf(value, turn + at) };
      }
    }
    for (const [place, type, body] of [
      ['a broken JSON', JSON_BODY['content-type'], `{"bins":["${CARD}"`],
      ['plain text', 'text/plain', CARD],
      ['the type of the body', `application/${CARD}`, '{}'],
    ] as const) {
      const request = { headers: { ...base, 'content-type': type }, body };
      yield { place, path, request, ways: SENDING_WAYS };
    }
  }
  for (const [at, name] of [
    'x-request-id',
    'user-agent',
    'accept-language',
    'referer',
    'origin',
    'authorization',
    'x-csrf-token',
    'x-forwarded-for',
    'x-forwarded-host',
    'host',
    'if-none-match',
    'sec-fetch-site',
    'x-anything',
    'traceparent',
  ].entries()) {
    for (const digits of [CARD, DASHED]) {
      const request = { headers: { ...base, [name]: digits } };
      yield { place: `header ${name}`, path, request, ways: waysOf(digits, turn + at) };
    }
  }
  const [session = ''] = cookie.split('=');
  const secret = session.replace('gatehouse', 'gatehouse-tx-abcdef');
  for (const sent of [`${session}=${CARD}`, `${secret}=${CARD}`, `${CARD}=${CARD}; ${cookie}`]) {
    yield { place: 'cookie', path, request: { headers: { ...change, cookie: sent } }, ways: SENDING_WAYS };
  }
  yield { place: 'accept', path, request: { headers: { ...base, accept: `text/${CARD}` } }, ways: SENDING_WAYS };
}

describe('R85 R86 a card number in every place of a request to every route', () => {
  test.each(ROUTES.map((route, turn) => ({ ...route, turn })))(
    '$method $pattern',
    async ({ turn, ...route }) => {
      let count = 0;
      const failed: string[] = [];
      for (const { place, path, request, ways } of attemptsAt(route, turn)) {
        for (const { accept, ...way } of ways) {
          const headers = { accept, ...request.headers, ...way };
          const response = await sendRequest(`${site.url}/`, {
            ...request,
            method: route.method,
            target: path,
            headers,
            agent,
          });
          count += 1;
          expectNoCardNumber(
            `${response.rawHeaders.join('\n')}\n${response.body}`,
            `The response to ${place} of ${route.method} ${path}`,
          );
          if (response.status >= 500) failed.push(`${response.status} ${place} ${path}`);
        }
      }
      expect(failed).toEqual([]);
      expect(count).toBeGreaterThan(150);
    },
    60_000,
  );

  test('during sign-in and consent', async () => {
    for (const path of [
      `/sign-in?return_to=${encodeURIComponent(`/connections?card=${CARD}`)}`,
      `/connections?card=${CARD}`,
      `/connections/platform?return_to=/x/${CARD}`,
    ]) {
      const { page } = await signIn(site, 'second@example.test', { path });
      expectNoCardNumber(`${page.visited.slice(1).join('\n')} ${page.body}`, path);
    }
    const { agent: browser } = await signIn(site);
    const page = await browser.get(`${site.url}/connections/platform`);
    const token = page.forms[0]?.fields.find(([name]) => name === '_csrf')?.[1] ?? '';
    const result = await browser.request(`${site.url}/connections/platform`, {
      method: 'POST',
      headers: { origin: site.url },
      body: new URLSearchParams({ _csrf: token, return_to: `/connections?card=${CARD}` }),
    });
    expectNoCardNumber(`${result.visited.join('\n')} ${result.body}`, 'the end of a consent');
    expect(result.url).toBe(`${site.url}/connections/platform`);
  });

  test('is in no log line, metric, stored byte or outbound byte', async () => {
    expect(site.logs().length).toBeGreaterThan(500);
    expectNoCardNumber(site.logs().join(''), 'A log line');
    expectNoCardNumber((await sendRequest(`${site.managementUrl}/metrics`)).body, 'A metric');

    for (const name of readdirSync(site.dataDirectory)) {
      expectNoCardNumber(readFileSync(join(site.dataDirectory, name)).toString('latin1'), name);
    }
    const { issuer, platformUrl, binServiceUrl } = site.sandbox;
    const sent = recorder.sentTo([issuer, platformUrl, binServiceUrl].map((url) => Number(new URL(url).port)));
    // Proof that the recorder works: it has the calls of a sign-in, including bodies.
    expect(sent).toContain('grant_type=authorization_code');
    expectNoCardNumber(sent, 'What was sent out');
    expectNoCardNumber(JSON.stringify(site.sandbox.requests.latest()), 'What reached the sandbox');
  });

  test('does not keep a later BIN from being looked up', async () => {
    expect((await sendRequest(`${site.url}/bin/45717360`, { headers: { ...ACCEPT_JSON, cookie } })).status).toBe(200);
  });
});

test('R86 the page to choose an app does not pass a card number on', async () => {
  const siteWithTwoApps = await startSite({
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second')],
  });
  try {
    for (const digits of SPELLINGS) {
      const { body, status } = await sendRequest(`${siteWithTwoApps.url}/sign-in?return_to=%2Fx%3F${digits}`, {
        headers: ACCEPT_HTML,
      });
      expect(status).toBe(200);
      expectNoCardNumber(body, digits);
    }
    expect(
      (await sendRequest(`${siteWithTwoApps.url}/sign-in?return_to=%2Fconnections`, { headers: ACCEPT_HTML })).body,
    ).toContain('%2Fconnections');
  } finally {
    await siteWithTwoApps.close();
  }
});

test('R86 the log removes card numbers', () => {
  const lines: string[] = [];
  const logger = createLogger({
    level: 'info',
    destination: { write: (line: string) => void lines.push(line) },
  });
  for (const digits of [CARD, GROUPED, DASHED, WIDE]) logger.info({ [digits]: { deep: [digits] } }, digits);
  expectNoCardNumber(lines.join(''), 'A log line');
  expect(lines).toHaveLength(4);
});

describe('R86: the decoded forms of a text', () => {
  test('unchanged, decoded up to three times, and with plus signs as spaces', () => {
    expect(decodedForms('a+b')).toEqual(['a+b', 'a b']);
    expect(decodedForms('%2541')).toEqual(['%2541', '%41', 'A']);
    expect(decodedForms('%zz%41')).toContain('%zzA');
    expect(decodedForms(WIDE)).toEqual([WIDE]);
    expect(decodedForms(encodeURIComponent(WIDE))).toContain(WIDE);
  });
});
