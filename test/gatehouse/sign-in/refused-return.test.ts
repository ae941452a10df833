/** R70: a return address that is not allowed is named in the log and in the record, without a flood of lines. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRefusalLog, refusedReturn } from '../../../src/gatehouse/sign-in/refused-return.ts';
import { getJson, JSON_ONLY, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { ACCEPT_HTML, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { csrfTokenOf } from './attempt.ts';

const FRONT = 'https://front.example/board/';
const SITE = { origin: 'https://gatehouse.example', home: '/' };

describe('the reason of a refusal', () => {
  test.each([
    ['a missing final slash', FRONT.slice(0, -1), 'character 28 is its end where the registered one has "/"'],
    ['another scheme', FRONT.replace('https', 'http'), 'nearest is https://front.example/board/: character 5 is ":"'],
    ['upper case', FRONT.replace('front', 'Front'), 'character 9 is "F" where the registered one has "f"'],
    ['an added query', `${FRONT}?secret=1`, 'character 29 is "?" where the registered one has its end'],
    ['this host with its origin', `${SITE.origin}/board`, 'write an address of this host as a path, from "/" on.'],
    ['a path without its slash', 'board', 'it is neither an absolute URL nor a local path'],
    ['another host', '//front.example/', 'it is neither an absolute URL nor a local path'],
    ['a long path', `/${'x/'.repeat(300)}`, 'it is longer than 512 characters.'],
    ['a card number', '/pay/4571736000000000', 'it has digits like those of a card number.'],
    ['a letter that turns the text around', FRONT.replace('board', '\u202e'), 'is "\ufffd" where'],
    ['half a character', FRONT.replace('board', '\ud83d'), 'is "\ufffd" where'],
  ])('names %s', (_name, requested, reason) => {
    const refused = refusedReturn(requested, SITE, ['https://other.example/', FRONT]);
    expect(refused).toMatchObject({ used: '/', reason: expect.stringContaining(reason) });
  });

  test('is that the app has no return URLs, or that a sign-out allows only local paths', () => {
    expect(refusedReturn(FRONT, SITE, [])?.reason).toBe('the app has no return URLs.');
    expect(refusedReturn(FRONT, SITE, undefined)?.reason).toBe('only a local path is allowed here.');
  });

  test.each([undefined, '', '/', '/board?view=7#top', FRONT])('is undefined for %s, which is allowed', (requested) => {
    expect(refusedReturn(requested, SITE, [FRONT])).toBeUndefined();
  });
});

test.each([
  ['a query', 'https://a.example/x?token=secret-1', 'https://a.example/x?…'],
  ['a fragment', 'https://a.example/x#access_token=secret-2', 'https://a.example/x?…'],
  ['a password', 'https://user:secret-3@a.example/x', 'https://a.example/x'],
  ['a password without a scheme', '//user:secret-4@a.example/x', '//a.example/x'],
  ['a password without a slash', 'user:secret-5@a.example/x', 'a.example/x'],
  ['a password after one slash', 'https:/user:secret-6@a.example/x', 'https:/a.example/x'],
  ['a password after backslashes', 'https:\\\\user:secret-7@a.example/x', 'a.example/x'],
  ['a card number as a scheme', 'x4571736000000000://a.example/x', 'x[removed]://a.example/x'],
  ['a long part of a path', `https://a.example/reset/${'s3cr3t'.repeat(8)}/x`, 'https://a.example/reset/…/x'],
  ['control characters', 'x\n\u202ey\u0000', 'x\ufffd\ufffdy\ufffd'],
  ['a card number', '/4571736000000000', '/[removed]'],
  ['all after its beginning', 'é😀/'.repeat(200), 'é😀/'.repeat(30)],
])('the address is shown without %s', (_name, requested, shown) => {
  const { requested: shownAddress = '', ...otherFacts } = refusedReturn(requested, SITE, [FRONT]) ?? {};
  expect(shownAddress.replace(/\[[^\]]*\]/, '[removed]')).toBe(shown);
  expect(JSON.stringify(otherFacts)).not.toMatch(/secret|s3cr3t|4571736/);
});

test('R91 at most 20 lines a minute are logged', () => {
  let now = 0;
  const lines: unknown[] = [];
  const log = createRefusalLog(
    (facts) => lines.push(facts),
    () => now,
  );
  const refusal = { requested: 'x', reason: 'y', used: '/', route: '/sign-in' };
  for (let n = 0; n < 1_000; n += 1) log(refusal);
  expect(lines).toHaveLength(20);

  now = 60_000;
  log(refusal);
  expect(lines).toHaveLength(21);
});

describe.each(['SQLite', 'Redis'])('with %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let redis: RedisServer | undefined;
  let site: TestSite;
  beforeAll(async () => {
    if (missing) return;
    redis = kind === 'Redis' ? await startRedis() : undefined;
    site = await startSite({
      env: { ADMIN_APP: 'platform', ...(redis && { REDIS_URL: redis.url }) },
      apps: (urls) => [
        sandboxApp(urls, 'platform', { returnUrls: [FRONT] }),
        sandboxApp(urls, 'second', { signIn: undefined }),
      ],
    });
  });
  afterAll(async () => {
    await site?.close();
    await redis?.dispose();
  });

  const readLines = (): Record<string, unknown>[] =>
    site
      .logs()
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => msg === 'return address not allowed');
  const waitForLine = async (requestId: unknown) => {
    await until(() => readLines().some((line) => line.requestId === requestId));
    return readLines().find((line) => line.requestId === requestId);
  };

  test('a sign-in leads to the start page, and its log line and record say why', async (context) => {
    skipIfMissing(context, missing);
    const query = `?return_to=${encodeURIComponent(`${FRONT.slice(0, -1)}?code=secret`)}`;
    const { agent, page } = await signIn(site, 'admin@example.test', { path: `/sign-in${query}` });
    expect(new URL(page.url).pathname).toBe('/');
    const [line] = readLines();
    expect(line).toMatchObject({
      level: 40,
      route: '/sign-in',
      app: 'platform',
      used: '/',
      requestId: expect.any(String),
      requested: 'https://front.example/board?…',
      reason: `it is not one of the return URLs of the app, of which nearest is ${FRONT}: character 28 is "?" where the registered one has "/".`,
    });

    const { items } = (await getJson(agent, `${site.url}/admin/api/sign-ins`)).json as { items: { id: string }[] };
    const id = items[0]?.id;
    const { steps } = (await getJson(agent, `${site.url}/admin/api/sign-ins/${id}`)).json as {
      steps: { name: string; detail: string }[];
    };
    expect(steps[0]?.detail).toBe(
      `platform; return_to "${line?.requested}" is not allowed, so the browser returns to /: ${line?.reason}`,
    );
    expect((await agent.get(`${site.url}/admin/sign-ins/${id}`)).body).toContain('is not allowed');
  });

  test('the start of a connection and a sign-out are logged, too', async (context) => {
    skipIfMissing(context, missing);
    const { agent } = await signIn(site);
    const token = await csrfTokenOf(site, agent);
    const post = (path: string, fields: Record<string, string> = {}) =>
      sendRequest(site.url + path, {
        method: 'POST',
        headers: { ...ACCEPT_HTML, ...FORM_BODY, cookie: agent.cookies.header(site.url) },
        body: new URLSearchParams({ _csrf: token, ...fields }).toString(),
      });

    const connected = await post('/connections/second', { return_to: FRONT });
    expect(await waitForLine(connected.headers['x-request-id'])).toMatchObject({
      route: '/connections/:app',
      app: 'second',
      requested: FRONT,
      used: '/connections/second',
      reason: 'the app has no return URLs.',
    });

    const signedOut = await post(`/sign-out?return_to=${encodeURIComponent(FRONT)}`);
    expect(signedOut.status).toBe(303);
    expect(await waitForLine(signedOut.headers['x-request-id'])).toMatchObject({
      route: '/sign-out',
      requested: FRONT,
      used: '/',
      reason: 'only a local path is allowed here.',
    });
  });

  test('an allowed address writes no line', async (context) => {
    skipIfMissing(context, missing);
    const linesBefore = readLines().length;

    for (const allowed of ['/board', FRONT, ''])
      await sendRequest(`${site.url}/sign-in?return_to=${encodeURIComponent(allowed)}`, JSON_ONLY);
    await sendRequest(`${site.url}/sign-in`, JSON_ONLY);

    expect(readLines()).toHaveLength(linesBefore);
  });
});
