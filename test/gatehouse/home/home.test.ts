/** The home page is of use whatever the platform does: it comes in time, says what is wrong, and keeps the rest. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { FaultKind } from '../../../src/sandbox/faults.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson, JSON_ONLY, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { pass } from '../../support/passing-time.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';
import { disconnect } from '../grants/vault-desk.ts';

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

async function home(of = agent): Promise<{ page: Page; seconds: number }> {
  const took = startStopwatch();
  const page = await of.get(`${site.url}/`);
  return { page, seconds: took() / 1000 };
}

/** What has to be there whatever happens to the thread. */
function expectUseful({ page, seconds }: Awaited<ReturnType<typeof home>>): void {
  expect(page.status).toBe(200);
  expect(seconds).toBeLessThan(5);
  expect(page.body).toContain('Hello, <bdi>');
  expect(page.forms.some(({ names }) => names.includes('bin'))).toBe(true);
  expect(page.forms.some(({ action }) => action.endsWith('/sign-out'))).toBe(true);
  expect(page.body).toContain('/connections/platform');
}

const thread = (body: string | object, type = 'application/json') =>
  site.sandbox.faults.set({ on: 'platform', kind: 'response', status: 200, body, headers: { 'Content-Type': type } });

/** Keeps the page waiting for the platform until `end` is called, in place of 4 s. */
function holdPatience(): { end(): void } {
  const held: AbortController[] = [];
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((milliseconds) => {
    if (milliseconds !== 4_000) return timeout(milliseconds);
    const controller = new AbortController();
    held.push(controller);
    return controller.signal;
  });
  return {
    end() {
      for (const controller of held) controller.abort();
    },
  };
}

describe('while the platform', () => {
  const timeout = 'The platform took too long';
  const failed = 'The platform did not respond properly';
  test.each<[string, FaultKind, string]>([
    ['cuts the connection', { kind: 'reset' }, failed],
    ['answers 500', { kind: 'error' }, failed],
    ['breaks off amid its answer', { kind: 'truncated' }, failed],
    ['cuts the connection amid its answer', { kind: 'reset', when: 'after_headers' }, failed],
    ['sends 200 MB', { kind: 'huge' }, failed],
    ['answers 404', { kind: 'response', status: 404, body: {} }, failed],
    ['drips', { kind: 'drip', intervalMs: 200 }, timeout],
    ['answers 503', { kind: 'response', status: 503, body: 'x' }, failed],
  ])('%s, the page is useful within 5 s and says so', async (_name, fault, words) => {
    site.sandbox.faults.set({ on: 'platform', ...fault });
    const answer = await home();
    expectUseful(answer);
    expect(answer.page.body).toContain(words);
    expect(answer.page.body).toContain(answer.page.headers.get('x-request-id')?.slice(-8));
  });

  test.each<[string, FaultKind]>([
    ['does not answer', { kind: 'hold', until: new Promise(() => undefined) }],
    ['is slow', { kind: 'slow', ms: 8_000 }],
  ])('%s, the page waits no longer than its patience and says so', async (_name, fault) => {
    site.sandbox.faults.set({ on: 'platform', ...fault });
    site.sandbox.hits.reset();
    const patience = holdPatience();
    const answering = home();
    await until(() => site.sandbox.hits.count('GET /1/threads/current') === 1);
    patience.end();
    const answer = await answering;
    expectUseful(answer);
    expect(answer.page.body).toContain(timeout);
    expect(answer.page.body).toContain(answer.page.headers.get('x-request-id')?.slice(-8));
  });

  test('limits its calls, the page says when to try again', async () => {
    site.sandbox.faults.set({
      on: 'platform',
      kind: 'response',
      status: 429,
      body: {},
      headers: { 'Retry-After': '1500' },
    });
    const answer = await home();
    expectUseful(answer);
    expect(answer.page.body).toContain('25 minutes');
  });

  test('works again, the thread is there', async () => {
    pass(1500);
    const answer = await home();
    expectUseful(answer);
    expect(answer.page.body).toContain('Spring launch');
  });
});

describe('while the connection', () => {
  test('cannot be renewed, the page says that it is the provider, and that nothing is lost', async () => {
    pass(61);
    site.sandbox.faults.set({ on: 'identity-provider', path: '/token', kind: 'error' });
    const answer = await home();
    expectUseful(answer);
    expect(answer.page.body).toContain('The sign-in provider does not answer');
    site.sandbox.faults.clear();
    pass(40);
    expect((await home()).page.body).toContain('Spring launch');
  });

  test('breaks in this very moment, that stands first, with the way to mend it', async () => {
    const { agent: other } = await signIn(site, 'second@example.test');
    pass(61);
    site.sandbox.faults.set({
      on: 'identity-provider',
      path: '/token',
      kind: 'response',
      status: 400,
      body: { error: 'invalid_grant' },
    });
    const answer = await home(other);
    expectUseful(answer);
    const { body, forms } = answer.page;
    expect(body.indexOf('Connection that needs attention')).toBeGreaterThan(0);
    expect(body.indexOf('Connection that needs attention')).toBeLessThan(body.indexOf('Hello, <bdi>'));
    expect(body).toContain('The provider has ended this connection.');
    expect(forms.filter(({ action }) => action.endsWith('/connections/platform')).length).toBeGreaterThan(0);
  });

  test('does not exist, the page offers to connect', async () => {
    const { agent: other } = await signIn(site, 'admin@example.test');
    await disconnect(site, other);
    site.sandbox.hits.reset();
    const answer = await home(other);
    expectUseful(answer);
    expect(answer.page.body).toContain('to read your current thread here');
    expect(site.sandbox.hits.requests('platform')).toEqual([]);
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
    ['with its HTML inside', { thread: { title: 'T', html: '<p>Inner</p>' } }, 'T', '<p>Inner</p>'],
    ['without HTML', { thread: { title: 'Bare', id: 'x1' } }, 'Bare', '&quot;x1&quot;'],
    ['in a flat answer', { title: 'Flat', author_name: 'Zoë' }, 'Flat', 'Zoë'],
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
    thread(body);
    const answer = await home();
    expectUseful(answer);
    expect(answer.page.body).toContain(title);
    expect(answer.page.body).toContain(words);
  });

  test('runs, loads and styles nothing of the platform’s', async () => {
    thread({
      thread: { title: '<script>alert(1)</script>' },
      html: '<script>alert(2)</script><img src="https://evil.example/x.png" onerror="alert(3)"><p style="position:fixed" onclick="alert(4)">kept</p><a href="javascript:alert(5)">link</a><form action="https://evil.example/"><input name="password"></form>',
    });
    const { page } = await home();
    expect(page.body).toContain('kept');
    expect(page.body).not.toMatch(/<script>alert|evil\.example|onerror|onclick|position:fixed|javascript:/i);
    expect(page.forms.some(({ names }) => names.includes('password'))).toBe(false);
  });

  test('of more than 100,000 characters is cut, closed and said', async () => {
    thread({ thread: { title: 'Long' }, html: `<p>${'ab '.repeat(40_000)}</p>` });
    const { page } = await home();
    expect(page.body).toMatch(/ab a?b?<\/p><\/div>/);
    expect(page.body).toContain('The thread is longer than this page shows.');
    expect(page.body.length).toBeLessThan(110_000);
  });

  test('with more open tags than a browser would build is shown as text', async () => {
    thread({ thread: { title: 'Deep' }, html: `${'<b>'.repeat(1_000)}words` });
    const { page } = await home();
    expect(page.body).toContain('&lt;b&gt;words');
  });

  test.each([
    ['Q&A <1>', 'Q&amp;A &lt;1&gt;'],
    ['Spring launch', 'Spring launch'],
  ])('does not repeat its title %s', async (title, heading) => {
    thread({ thread: { title }, html: `<h1>${heading}</h1><p>words</p>` });
    const { page } = await home();
    expect(page.body).toContain('dir="auto"><p>words</p></div>');
  });

  test('of more than half a megabyte is not put on the page', async () => {
    thread({ thread: { title: 'Big' }, html: `<p>${'x'.repeat(600 * 1024)}</p>` });
    const answer = await home();
    expectUseful(answer);
    expect(answer.page.body.length).toBeLessThan(100_000);
  });
});

describe('without a session', () => {
  test('there is one button for each sign-in app, and nothing is asked of anybody', async () => {
    site.sandbox.hits.reset();
    const page = await createUserAgent().get(`${site.url}/`);
    expect(page.status).toBe(200);
    expect(page.body).toContain(`${site.url}/sign-in?app=platform`);
    expect(page.body).not.toContain('Hello, <bdi>');
    expect(page.headers.getSetCookie()).toEqual([]);
    expect(site.sandbox.hits.requests()).toEqual([]);
  });
});

describe('problem pages', () => {
  test('say what a code means, to people and to programs', async () => {
    const page = await agent.get(`${site.url}/problems/upstream_error`);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const { status, json } = await getJson(agent, `${site.url}/problems/upstream_error`);
    expect([status, json]).toEqual([
      200,
      {
        type: `${site.url}/problems/upstream_error`,
        code: 'upstream_error',
        title: 'The platform did not respond properly',
        status: 502,
      },
    ]);
  });

  test.each(['nonsense', 'constructor', '__proto__', 'toString', '%00', 'upstream_error%2f'])(
    '%s is none',
    async (code) => {
      const page = await agent.get(`${site.url}/problems/${code}`, JSON_ONLY);
      expect([page.status, JSON.parse(page.body).code]).toEqual([404, 'not_found']);
    },
  );
});

test('the page asks two slow platforms at once', async () => {
  const several = await startSite({
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second')],
  });
  try {
    const { agent: someone } = await signIn(several, undefined, { path: '/sign-in?app=platform' });
    await signIn(several, undefined, { agent: someone, path: '/sign-in?app=second' });
    several.sandbox.hits.reset();
    several.sandbox.faults.set({ on: 'platform', kind: 'hold', until: new Promise(() => undefined) });
    const patience = holdPatience();
    const getting = someone.get(`${several.url}/`);
    await until(() => several.sandbox.hits.count('GET /1/threads/current') === 2);
    patience.end();
    const page = await getting;
    expect(page.body.match(/The platform took too long/g)).toHaveLength(2);
  } finally {
    await several.close();
  }
});
