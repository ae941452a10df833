/** The home page during faults of the platform: it responds in time, names the problem, and shows everything else. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { FaultKind } from '../../../src/sandbox/faults.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson, JSON_ONLY, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { until } from '../../support/until.ts';
import { disconnect } from '../grants/storage-access.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site));
});
afterAll(() => site.close());
afterEach(() => {
  site.sandbox.faults.clear();
  vi.restoreAllMocks();
});

async function loadHome(userAgent = agent): Promise<{ page: Page; seconds: number }> {
  const elapsed = startStopwatch();
  const page = await userAgent.get(`${site.url}/`);
  return { page, seconds: elapsed() / 1000 };
}

/** Expects everything on the page except the thread. */
function expectRestOfPage({ page, seconds }: Awaited<ReturnType<typeof loadHome>>): void {
  expect(page.status).toBe(200);
  expect(seconds).toBeLessThan(5);
  expect(page.body).toContain('Hello, <bdi>');
  expect(page.forms.some(({ names }) => names.includes('bin'))).toBe(true);
  expect(page.forms.some(({ action }) => action.endsWith('/sign-out'))).toBe(true);
  expect(page.body).toContain('/connections/platform');
}

const respondWithThread = (body: string | object) =>
  site.sandbox.faults.set({
    listener: 'platform',
    kind: 'response',
    status: 200,
    body,
    headers: { 'Content-Type': 'application/json' },
  });

/** Replaces the page's timeout of 4 s: it expires when `end` is called. */
function replaceTimeout(): { end(): void } {
  const controllers: AbortController[] = [];
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((milliseconds) => {
    if (milliseconds !== 4_000) return timeout(milliseconds);
    const controller = new AbortController();
    controllers.push(controller);
    return controller.signal;
  });
  return {
    end() {
      for (const controller of controllers) controller.abort();
    },
  };
}

describe('while the platform', () => {
  const TIMEOUT = 'The platform took too long';
  const BAD_RESPONSE = 'The platform did not respond properly';
  test.each<[string, FaultKind, string]>([
    ['resets the connection', { kind: 'reset' }, BAD_RESPONSE],
    ['responds with 500', { kind: 'error' }, BAD_RESPONSE],
    ['truncates its response', { kind: 'truncated' }, BAD_RESPONSE],
    ['resets the connection after the headers', { kind: 'reset', when: 'after_headers' }, BAD_RESPONSE],
    ['sends 200 MB', { kind: 'huge' }, BAD_RESPONSE],
    ['responds with 404', { kind: 'response', status: 404, body: {} }, BAD_RESPONSE],
    ['sends its response slowly', { kind: 'drip', intervalMs: 200 }, TIMEOUT],
    ['responds with 503', { kind: 'response', status: 503, body: 'x' }, BAD_RESPONSE],
  ])('%s, the page responds within 5 s and names the problem', async (_name, fault, words) => {
    site.sandbox.faults.set({ listener: 'platform', ...fault });
    const response = await loadHome();
    expectRestOfPage(response);
    expect(response.page.body).toContain(words);
    expect(response.page.body).toContain(response.page.headers.get('x-request-id')?.slice(-8));
  });

  test.each<[string, FaultKind]>([
    ['does not respond', { kind: 'hold', until: new Promise(() => undefined) }],
    ['is slow', { kind: 'slow', ms: 8_000 }],
  ])('%s, the page responds after its timeout and names the problem', async (_name, fault) => {
    site.sandbox.faults.set({ listener: 'platform', ...fault });
    site.sandbox.requests.reset();
    const pageTimeout = replaceTimeout();
    const loading = loadHome();
    await until(() => site.sandbox.requests.count('GET /1/threads/current') === 1);
    pageTimeout.end();
    const response = await loading;
    expectRestOfPage(response);
    expect(response.page.body).toContain(TIMEOUT);
    expect(response.page.body).toContain(response.page.headers.get('x-request-id')?.slice(-8));
  });

  test('limits our calls, the page says when to try again', async () => {
    site.sandbox.faults.set({
      listener: 'platform',
      kind: 'response',
      status: 429,
      body: {},
      headers: { 'Retry-After': '1500' },
    });
    const response = await loadHome();
    expectRestOfPage(response);
    expect(response.page.body).toContain('25 minutes');
  });

  test('works again, the page shows the thread', async () => {
    advanceClock(1500);
    const response = await loadHome();
    expectRestOfPage(response);
    expect(response.page.body).toContain('Spring launch');
  });
});

describe('while the connection', () => {
  test('cannot be refreshed, the page names the provider, and the connection survives', async () => {
    advanceClock(61);
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'error' });
    const response = await loadHome();
    expectRestOfPage(response);
    expect(response.page.body).toContain('The sign-in provider does not respond');
    site.sandbox.faults.clear();
    advanceClock(40);
    expect((await loadHome()).page.body).toContain('Spring launch');
  });

  test('has just ended, the page shows that first, with a button to reconnect', async () => {
    const { agent: otherAgent } = await signIn(site, 'second@example.test');
    advanceClock(61);
    site.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'response',
      status: 400,
      body: { error: 'invalid_grant' },
    });
    const response = await loadHome(otherAgent);
    expectRestOfPage(response);
    const { body, forms } = response.page;
    const [, first] = /class="connection-rows">\s*<li>.*?href="([^"]*)"/s.exec(body) ?? [];
    expect(first).toBe('/connections/platform');
    expect(body.indexOf('class="connection-rows"')).toBeLessThan(body.indexOf('Current thread'));
    expect(body).toContain('The provider has ended this connection.');
    expect(forms.filter(({ action }) => action.endsWith('/connections/platform')).length).toBeGreaterThan(0);
  });

  test('does not exist, the page offers to connect', async () => {
    const { agent: otherAgent } = await signIn(site, 'admin@example.test');
    await disconnect(site, otherAgent);
    site.sandbox.requests.reset();
    const response = await loadHome(otherAgent);
    expectRestOfPage(response);
    expect(response.page.body).toContain('to read your current thread here');
    expect(site.sandbox.requests.latest('platform')).toEqual([]);
  });
});

describe('the thread on the page', () => {
  test.each<[string, string | object, string, string]>([
    [
      'of HTML',
      { thread: { title: 'Plan <b>', author: { name: 'Ann & Bo' } }, html: '<p>Hi</p>' },
      'Plan &lt;b&gt;',
      '<p>Hi</p>',
    ],
    ['with nested HTML', { thread: { title: 'T', html: '<p>Inner</p>' } }, 'T', '<p>Inner</p>'],
    ['without HTML', { thread: { title: 'Bare', id: 'x1' } }, 'Bare', '&quot;x1&quot;'],
    ['in a flat response', { title: 'Flat', author_name: 'Zoë' }, 'Flat', 'Zoë'],
    ['that is a list', [1, 2, 3], 'Current thread', 'The platform sent this thread as data'],
    ['that is null', 'null', 'Current thread', 'The platform sent this thread as data'],
    ['that is plain text', 'just <b>words</b>', 'Current thread', 'just &lt;b&gt;words&lt;/b&gt;'],
    ['that is empty', '', 'Current thread', 'Nothing has been written in this thread yet.'],
    [
      'with hostile types',
      { thread: { title: { a: 1 }, author: ['x'], updated_usec: 1e300, html: 7 } },
      'Current thread',
      'as data',
    ],
  ])('%s', async (_name, body, title, words) => {
    respondWithThread(body);
    const response = await loadHome();
    expectRestOfPage(response);
    expect(response.page.body).toContain(title);
    expect(response.page.body).toContain(words);
  });

  test('cannot run scripts, load resources or change styles', async () => {
    respondWithThread({
      thread: { title: '<script>alert(1)</script>' },
      html: '<script>alert(2)</script><img src="https://evil.example/x.png" onerror="alert(3)"><p style="position:fixed" onclick="alert(4)">kept</p><a href="javascript:alert(5)">link</a><form action="https://evil.example/"><input name="password"></form>',
    });
    const { page } = await loadHome();
    expect(page.body).toContain('kept');
    expect(page.body).not.toMatch(/<script>alert|evil\.example|onerror|onclick|position:fixed|javascript:/i);
    expect(page.forms.some(({ names }) => names.includes('password'))).toBe(false);
  });

  test('of more than 100,000 characters is cut, with its tags closed and a note', async () => {
    respondWithThread({ thread: { title: 'Long' }, html: `<p>${'ab '.repeat(40_000)}</p>` });
    const { page } = await loadHome();
    expect(page.body).toMatch(/ab a?b?<\/p><\/div>/);
    expect(page.body).toContain('The thread is longer than this page shows.');
    expect(page.body.length).toBeLessThan(110_000);
  });

  test('with too many open tags is shown as text', async () => {
    respondWithThread({ thread: { title: 'Deep' }, html: `${'<b>'.repeat(1_000)}words` });
    const { page } = await loadHome();
    expect(page.body).toContain('&lt;b&gt;words');
  });

  test.each([
    ['Q&A <1>', 'Q&amp;A &lt;1&gt;'],
    ['Spring launch', 'Spring launch'],
  ])('does not repeat its title %s', async (title, heading) => {
    respondWithThread({ thread: { title }, html: `<h1>${heading}</h1><p>words</p>` });
    const { page } = await loadHome();
    expect(page.body).toContain('dir="auto"><p>words</p></div>');
  });

  test('of more than half a megabyte is not shown', async () => {
    respondWithThread({ thread: { title: 'Big' }, html: `<p>${'x'.repeat(600 * 1024)}</p>` });
    const response = await loadHome();
    expectRestOfPage(response);
    expect(response.page.body.length).toBeLessThan(100_000);
  });
});

describe('the API calls on the page', () => {
  const routes = [
    { name: 'threads', method: 'GET', path: '/1/threads', query: ['limit'] },
    { name: 'thread', method: 'GET', path: '/1/threads/{id}' },
    { name: 'message', method: 'POST', path: '/1/threads/{id}/messages' },
  ];
  const listed = (body: string) =>
    [...body.matchAll(/<li>(?:<a href="([^"]+)">)?<code>((?:GET|POST) [^<]+)<\/code>/g)].map(([, href, call]) => [
      call,
      href,
    ]);

  test('are the routes of a connected app, with a link to those that a link can call', async () => {
    const other = await startSite({ app: { routes } });
    try {
      const { agent: user } = await signIn(other);
      const { body } = await user.get(`${other.url}/`);
      expect(listed(body)).toEqual([
        ['GET /1/threads/current', '/api/platform/1/threads/current'],
        ['GET /1/threads', '/api/platform/1/threads'],
        ['GET /1/threads/{id}', undefined],
        ['POST /1/threads/{id}/messages', undefined],
      ]);
      for (const [, href] of listed(body).filter(([, url]) => url !== undefined)) {
        expect((await user.get(other.url + href, JSON_ONLY)).status).toBe(200);
      }
      await disconnect(other, user);
      expect(listed((await user.get(`${other.url}/`)).body)).toEqual([]);
    } finally {
      await other.close();
    }
  });

  test('are left out if the app declares no route', async () => {
    expect((await loadHome()).page.body).not.toContain('API calls');
  });
});

test('a page that does not exist has the menu of the user', async () => {
  const { status, body } = await agent.get(`${site.url}/admin/nothing`);
  expect(status).toBe(404);
  expect(body).toContain('This page does not exist');
  expect(body).toMatch(/<nav class="site-nav"[\s\S]+href="\/connections"/);
});

describe('without a session', () => {
  test('there is one button for each sign-in app, and no call to a provider or platform', async () => {
    site.sandbox.requests.reset();
    const page = await createUserAgent().get(`${site.url}/`);
    expect(page.status).toBe(200);
    expect(page.body).toContain(`${site.url}/sign-in?app=platform`);
    expect(page.body).not.toContain('Hello, <bdi>');
    expect(page.headers.getSetCookie()).toEqual([]);
    expect(site.sandbox.requests.latest()).toEqual([]);
  });
});

describe('problem pages', () => {
  test('explain a code, as HTML and as JSON', async () => {
    const page = await agent.get(`${site.url}/problems/platform_error`);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const { status, json } = await getJson(agent, `${site.url}/problems/platform_error`);
    expect([status, json]).toEqual([
      200,
      {
        type: `${site.url}/problems/platform_error`,
        code: 'platform_error',
        title: 'The platform did not respond properly',
        status: 502,
      },
    ]);
  });

  test.each(['nonsense', 'constructor', '__proto__', 'toString', '%00', 'platform_error%2f'])(
    '%s is not found',
    async (code) => {
      const page = await agent.get(`${site.url}/problems/${code}`, JSON_ONLY);
      expect([page.status, JSON.parse(page.body).code]).toEqual([404, 'not_found']);
    },
  );
});

test('the page calls two slow platforms at the same time', async () => {
  const siteWithTwoApps = await startSite({
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second')],
  });
  try {
    const { agent: userAgent } = await signIn(siteWithTwoApps, undefined, { path: '/sign-in?app=platform' });
    await signIn(siteWithTwoApps, undefined, { agent: userAgent, path: '/sign-in?app=second' });
    siteWithTwoApps.sandbox.requests.reset();
    siteWithTwoApps.sandbox.faults.set({ listener: 'platform', kind: 'hold', until: new Promise(() => undefined) });
    const pageTimeout = replaceTimeout();
    const loading = userAgent.get(`${siteWithTwoApps.url}/`);
    await until(() => siteWithTwoApps.sandbox.requests.count('GET /1/threads/current') === 2);
    pageTimeout.end();
    const page = await loading;
    expect(page.body.match(/The platform took too long/g)).toHaveLength(2);
  } finally {
    await siteWithTwoApps.close();
  }
});
