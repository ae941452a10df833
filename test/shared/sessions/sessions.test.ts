/** R56, R57, R62: users list their sessions, end them one by one, and sign out everywhere. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SessionData } from 'express-session';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { describeBrowser } from '../../../src/shared/http/describe-browser.ts';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { createSessionLists, MAX_SESSIONS } from '../../../src/shared/sessions/session-lists.ts';
import { createSessionRecords, type SessionRecords } from '../../../src/shared/sessions/session-record.ts';
import { createUserSessions, type UserSessions } from '../../../src/shared/sessions/user-sessions.ts';
import { hashOf, keys } from '../../../src/shared/storage/keys.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore, DATABASE_FILE } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { getJson, JSON_ONLY, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { breakStore } from '../../support/store-fault.ts';

const FIREFOX = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0';
const SAFARI =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';

interface ListedSession {
  id: string;
  browser: string | null;
  startedAt: string;
  lastSeenAt: string;
  current: boolean;
}

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterEach(() => site.sandbox.faults.clear());
afterAll(() => site.close());

/** Ends all sessions of both users. */
beforeEach(async () => {
  for (const login of ['user@example.test', 'second@example.test']) {
    await signOutEverywhere(await signInBrowser(login));
  }
});

interface SignedInBrowser {
  agent: UserAgent;
  cookie: string;
  csrf: string;
}

async function signInBrowser(login = 'user@example.test', userAgent?: string): Promise<SignedInBrowser> {
  const agent = createUserAgent({ stopAt: (url) => userAgent !== undefined && url.includes('/oauth/callback/') });
  const { page } = await signIn(site, login, { agent });
  if (userAgent !== undefined) {
    const cookie = agent.cookies.header(site.url);
    const response = await sendRequest(page.url, { headers: { ...ACCEPT_HTML, cookie, 'user-agent': userAgent } });
    agent.cookies.store(site.url, response.headers['set-cookie'] ?? []);
  }
  const csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
  return { agent, cookie: agent.cookies.header(site.url), csrf };
}

const post = ({ cookie, csrf }: SignedInBrowser, path: string, accept: Record<string, string> = ACCEPT_HTML) =>
  sendRequest(site.url + path, { method: 'POST', headers: { ...accept, ...FORM_BODY, cookie }, body: `_csrf=${csrf}` });
const signOutEverywhere = (person: SignedInBrowser) => post(person, '/sign-out/everywhere');
const isSignedIn = async ({ cookie }: SignedInBrowser) =>
  JSON.parse((await sendRequest(`${site.url}/session`, { headers: { cookie } })).body).signedIn as boolean;
const listOf = async ({ agent }: SignedInBrowser) =>
  (await getJson(agent, `${site.url}/sessions`)).json.items as unknown as ListedSession[];

describe('R56 a user’s list of sessions', () => {
  test('has each browser with its times, and marks the current one', async () => {
    const first = await signInBrowser('user@example.test', FIREFOX);
    const second = await signInBrowser('user@example.test', SAFARI);
    const third = await signInBrowser();
    await signInBrowser('second@example.test', FIREFOX);
    const list = await listOf(first);
    expect(list.map(({ browser, current }) => [browser, current])).toEqual(
      expect.arrayContaining([
        ['Firefox on Windows', true],
        ['Safari on iOS', false],
        [null, false],
      ]),
    );
    expect(list).toHaveLength(3);
    expect(list[0]?.current).toBe(true);

    for (const { startedAt, lastSeenAt } of list) {
      expect(Math.abs(Date.now() - Date.parse(startedAt))).toBeLessThan(30_000);
      expect(Date.parse(lastSeenAt)).toBeGreaterThanOrEqual(Date.parse(startedAt));
    }
    expect((await listOf(second)).find(({ current }) => current)?.browser).toBe('Safari on iOS');

    const page = await third.agent.get(`${site.url}/sessions`);
    expect(page.body.match(/This browser/g)).toHaveLength(1);
    expect(page.body).toContain('Firefox on Windows');
    expect(page.body).toContain('Unknown browser');
    expect((await third.agent.get(`${site.url}/`)).body).toContain('href="/sessions"');
  });

  test('R60 has no session ids', async () => {
    const mine = await signInBrowser();
    const other = await signInBrowser();
    const [id = ''] = decodeURIComponent(mine.agent.cookies.get(sessionCookieName(site.url)) ?? '')
      .replace(/^s:/, '')
      .split('.');
    expect(id.length).toBeGreaterThan(20);

    const listedId = (await listOf(mine)).find(({ current }) => current)?.id ?? '';
    expect(listedId.length).toBe(16);

    for (const options of [{}, JSON_ONLY]) {
      const { body } = await other.agent.get(`${site.url}/sessions`, options);
      expect(body).toContain(listedId);
      expect(body).not.toContain(id);
    }
  });

  test('requires a session', async () => {
    expect((await sendRequest(`${site.url}/sessions`, { headers: ACCEPT_JSON })).status).toBe(401);
    expect((await sendRequest(`${site.url}/sessions`, { headers: ACCEPT_HTML })).headers.location).toBe(
      '/sign-in?return_to=%2Fsessions',
    );
    const endResponse = await sendRequest(`${site.url}/sessions/x/end`, {
      method: 'POST',
      headers: { ...ACCEPT_JSON, ...FORM_BODY },
      body: '',
    });
    expect(endResponse.status).toBe(401);
  });

  test.each([
    [undefined, undefined],
    ['', undefined],
    ['curl/8.10.1', undefined],
    ['4571736012345674/1.0 <script>', undefined],
    [
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36',
      'Chrome on Linux',
    ],
    [`${'('.repeat(16_000)}`, undefined],
    ['Something (Windows NT 10.0)', 'A browser on Windows'],
  ])('names a browser only with known words: %s', (userAgent, description) => {
    const elapsed = startStopwatch();
    expect(describeBrowser(userAgent)).toBe(description);
    expect(elapsed()).toBeLessThan(200);
  });
});

describe('R56 a user ends a session', () => {
  test('with the button on the page: the other browser is signed out, this one is not', async () => {
    const mine = await signInBrowser();
    const other = await signInBrowser('user@example.test', FIREFOX);
    const page = await mine.agent.get(`${site.url}/sessions`);
    const pageAfterEnd = await mine.agent.submit(page, {}, { button: 'Sign out there' });
    expect(new URL(pageAfterEnd.url).pathname).toBe('/sessions');
    expect(pageAfterEnd.body).toContain('That browser is signed out.');
    expect(pageAfterEnd.body).not.toContain('Firefox on Windows');

    // The notice is shown once, and no URL shows it again.
    for (const address of [pageAfterEnd.url, `${site.url}/sessions?ended=1`])
      expect((await mine.agent.get(address)).body).not.toContain('That browser is signed out.');
    expect([await isSignedIn(mine), await isSignedIn(other)]).toEqual([true, false]);
    expect(await listOf(mine)).toHaveLength(1);

    for (const path of ['/threads/current', '/bin/45717360', '/connections', '/sessions']) {
      expect(
        (await sendRequest(site.url + path, { headers: { ...ACCEPT_JSON, cookie: other.cookie } })).status,
        path,
      ).toBe(401);
    }
  });

  test('with an API call; a second call has the same response', async () => {
    const mine = await signInBrowser();
    const other = await signInBrowser();
    const id = (await listOf(mine)).find(({ current }) => !current)?.id ?? '';
    for (const _time of [1, 2]) {
      const response = await post(mine, `/sessions/${id}/end`, ACCEPT_JSON);
      expect([response.status, JSON.parse(response.body)]).toEqual([200, { id }]);
    }
    expect(await isSignedIn(other)).toBe(false);

    const lines = site.logs().map((line) => JSON.parse(line));
    const line = { msg: 'signed out', userId: expect.any(String), everywhere: false, session: id };
    expect(lines).toContainEqual(expect.objectContaining({ ...line, requestId: expect.any(String) }));
  });

  test('in this browser, which clears its cookie', async () => {
    const mine = await signInBrowser();
    const id = (await listOf(mine))[0]?.id ?? '';
    const response = await post(mine, `/sessions/${id}/end`);
    expect([response.status, response.headers.location]).toEqual([303, '/']);
    expect(response.headers['set-cookie']?.[0]).toMatch(/^gatehouse\.\d+=; Path=\/; Expires=Thu, 01 Jan 1970/);
    expect(await isSignedIn(mine)).toBe(false);
  });

  test('but not another user’s, whose id is as unknown as an invented one', async () => {
    const mine = await signInBrowser();
    const theirs = await signInBrowser('second@example.test');
    const id = (await listOf(theirs))[0]?.id ?? '';
    const responses = await Promise.all(
      [id, 'AAAAAAAAAAAAAAAA'].map((sessionId) => post(mine, `/sessions/${sessionId}/end`, ACCEPT_JSON)),
    );
    const problems = responses.map(({ status, body }) => ({ ...JSON.parse(body), status, instance: '' }));
    expect(problems[0]).toEqual(problems[1]);
    expect(problems[0]).toMatchObject({ status: 404, code: 'not_found' });
    expect(await isSignedIn(theirs)).toBe(true);
    expect((await listOf(mine)).map((session) => session.id)).not.toContain(id);
  });

  test('R65 and gets an error if the store cannot be written', async () => {
    const mine = await signInBrowser();
    const other = await signInBrowser();
    const id = (await listOf(mine)).find(({ current }) => !current)?.id ?? '';
    for (const path of [`/sessions/${id}/end`, '/sign-out/everywhere']) {
      const heal = breakStore();
      const response = await post(mine, path, ACCEPT_JSON).finally(heal);
      expect([response.status, response.headers['set-cookie']]).toEqual([503, undefined]);
    }
    expect([await isSignedIn(mine), await isSignedIn(other)]).toEqual([true, true]);
  });
});

describe('R57 sign-out everywhere', () => {
  test('ends all sessions of only this user, clears the cookie, and redirects to the provider', async () => {
    const [mine, other, third, theirs] = [
      await signInBrowser(),
      await signInBrowser(),
      await signInBrowser(),
      await signInBrowser('second@example.test'),
    ];
    const response = await signOutEverywhere(mine);
    expect(response.status).toBe(303);

    const target = new URL(response.headers.location ?? '');
    expect(target.origin).toBe(site.sandbox.issuer);
    expect(target.searchParams.get('id_token_hint')).toMatch(/^ey/);
    expect(response.headers['set-cookie']?.[0]).toMatch(/^gatehouse\.\d+=; Path=\/; Expires=Thu, 01 Jan 1970/);
    expect(await Promise.all([mine, other, third, theirs].map(isSignedIn))).toEqual([false, false, false, true]);
    expect(site.logs().filter((line) => line.includes('"everywhere":true')).length).toBeGreaterThan(0);
  });

  test('requires a POST with the CSRF token', async () => {
    const mine = await signInBrowser();
    const url = `${site.url}/sign-out/everywhere`;
    expect((await sendRequest(url, { headers: { cookie: mine.cookie } })).status).toBe(405);

    const headers = { cookie: mine.cookie, ...FORM_BODY };
    expect((await sendRequest(url, { method: 'POST', headers, body: '' })).status).toBe(403);

    const foreign = { ...headers, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
    expect((await sendRequest(url, { method: 'POST', headers: foreign, body: `_csrf=${mine.csrf}` })).status).toBe(403);
    expect(await isSignedIn(mine)).toBe(true);
  });

  test('redirects to the home page without a session', async () => {
    const response = await sendRequest(`${site.url}/sign-out/everywhere`, {
      method: 'POST',
      headers: { ...FORM_BODY, ...ACCEPT_HTML },
      body: '',
    });
    expect([response.status, response.headers.location]).toEqual([303, '/']);
  });

  test('works with the button on the page', async () => {
    const mine = await signInBrowser();
    const other = await signInBrowser();
    const page = await mine.agent.get(`${site.url}/sessions`);
    await mine.agent.submit(page, {}, { button: 'Sign out everywhere' });
    expect([await isSignedIn(mine), await isSignedIn(other)]).toEqual([false, false]);
  });
});

describe('R55 a session expires as configured', () => {
  test.each([
    ['without use, after SESSION_IDLE_SECONDS', { idle: 120, max: 3_600, useAfter: [119], expiresAfter: 122 }],
    ['in use, after SESSION_MAX_SECONDS', { idle: 120, max: 300, useAfter: [100, 100, 99], expiresAfter: 2 }],
  ])('%s', async (_words, { idle, max, useAfter, expiresAfter }) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const env = { SESSION_IDLE_SECONDS: String(idle), SESSION_MAX_SECONDS: String(max) };
    const own = await startSite({ env });
    try {
      const { agent } = await signIn(own);
      const advance = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1_000);
      const statusOf = async () => (await sendRequest(`${own.url}/bin/45717360`, options)).status;
      const options = { headers: { ...ACCEPT_JSON, cookie: agent.cookies.header(own.url) } };
      for (const seconds of useAfter) {
        advance(seconds);
        expect([seconds, await statusOf()]).toEqual([seconds, 200]);
      }
      advance(expiresAfter);
      expect(await statusOf()).toBe(401);
      expect((await getJson(agent, `${own.url}/session`)).json).toEqual({ signedIn: false });
    } finally {
      vi.useRealTimers();
      await own.close();
    }
  });

  test('GET /session does not extend the idle time', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const own = await startSite({ env: { SESSION_IDLE_SECONDS: '120' } });
    try {
      const { agent } = await signIn(own);
      const headers = { ...ACCEPT_JSON, cookie: agent.cookies.header(own.url) };
      vi.setSystemTime(Date.now() + 100_000);
      expect(JSON.parse((await sendRequest(`${own.url}/session`, { headers })).body).signedIn).toBe(true);

      vi.setSystemTime(Date.now() + 30_000);
      expect(JSON.parse((await sendRequest(`${own.url}/session`, { headers })).body).signedIn).toBe(false);
    } finally {
      vi.useRealTimers();
      await own.close();
    }
  });
});

describe('R62 a session that another browser ended stays ended', () => {
  test.each(['everywhere', 'one'] as const)('%s: after a slow consent in that session', async (scope) => {
    const mine = await signInBrowser();
    const slow = await signInBrowser();
    const id = (await listOf(mine)).find(({ current }) => !current)?.id ?? '';
    const callsBefore = site.sandbox.requests.count('POST /token');
    let release = () => {};
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'hold', until, times: 1 });
    const consent = slow.agent.request(`${site.url}/connections/platform`, {
      method: 'POST',
      body: new URLSearchParams({ _csrf: slow.csrf }),
      headers: { origin: site.url },
    });
    await expect.poll(() => site.sandbox.requests.count('POST /token')).toBe(callsBefore + 1);

    await (scope === 'one' ? post(mine, `/sessions/${id}/end`) : signOutEverywhere(mine));
    release();
    await consent;
    expect(await isSignedIn(slow)).toBe(false);
    expect((await getJson(slow.agent, `${site.url}/session`)).json.signedIn).toBe(false);
  });

  test('a sign-in begins no session that could not be listed', async () => {
    const other = new DatabaseSync(join(site.dataDirectory, DATABASE_FILE));
    try {
      const agent = createUserAgent({ stopAt: (url) => url.includes('/oauth/callback/') });
      const { page } = await signIn(site, 'second@example.test', { agent });
      other.exec(`CREATE TRIGGER no_lists BEFORE INSERT ON records WHEN NEW.key LIKE 'sessions-of:%'
        BEGIN SELECT RAISE(ABORT, 'no'); END;
        CREATE TRIGGER no_lists_again BEFORE UPDATE ON records WHEN NEW.key LIKE 'sessions-of:%'
        BEGIN SELECT RAISE(ABORT, 'no'); END`);
      const response = await sendRequest(page.url, {
        headers: { ...ACCEPT_HTML, cookie: agent.cookies.header(site.url) },
      });
      expect(response.status).toBeGreaterThanOrEqual(500);
      expect(response.headers['set-cookie']).toBeUndefined();
    } finally {
      other.exec('DROP TRIGGER IF EXISTS no_lists; DROP TRIGGER IF EXISTS no_lists_again');
      other.close();
    }
  });
});

describe('R56 the stored lists', () => {
  const LIFETIMES = { idleSeconds: 600, maxSeconds: 3600 };
  const USER = { id: 'u1', issuer: 'https://idp.example.com', subject: 's', name: 'A', email: 'a', admin: false };
  let now: number;
  let directory: string;
  let store: Store;
  let records: SessionRecords;
  let userSessions: UserSessions;
  let lists: ReturnType<typeof createSessionLists>;
  const sealedJson = createSealedJson(makeSealer());
  beforeEach(async () => {
    now = Date.parse('2026-03-15T12:00:00Z');
    directory = mkdtempSync(join(tmpdir(), 'gatehouse-lists-'));
    store = await createSqliteStore({ directory, clock: () => now });
    lists = createSessionLists({ store, maxSeconds: LIFETIMES.maxSeconds, clock: () => now });
    records = createSessionRecords({ store, sealedJson, lists, lifetimes: LIFETIMES, clock: () => now });
    userSessions = createUserSessions({ store, records, lists, clock: () => now });
  });
  afterEach(async () => {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const dataOf = (issuedAt = now / 1000) =>
    ({ cookie: {}, user: USER, app: 'a', csrfToken: 't', providerSession: { id: 'sid', issuedAt } }) as SessionData;
  const isValid = async (id: string) => (await records.read(id, { extend: false })) !== undefined;

  test('expire with their last session', async () => {
    await records.write('one', dataOf());
    now += LIFETIMES.maxSeconds * 1000 - 1;
    expect(await store.get(keys.sessionsOfUser('u1'))).toBeDefined();

    now += 61_000;
    expect(await store.get(keys.sessionsOfUser('u1'))).toBeUndefined();
    expect(await store.get(keys.sessionsOfProviderSession('sid'))).toBeUndefined();
  });

  test('drop expired sessions when another one is listed', async () => {
    await records.write('one', dataOf());
    now += LIFETIMES.maxSeconds * 1000;
    await records.write('two', dataOf());
    now += 61_000;
    expect((await lists.read(keys.sessionsOfUser('u1'))).map(({ hash }) => hash)).toEqual([hashOf('two')]);
  });

  test('have the last use, and leave out expired sessions', async () => {
    await records.write('one', dataOf());
    await records.write('two', dataOf());
    now += 300_000;
    await records.read('one', { extend: true });
    expect((await userSessions.list('u1')).map(({ seenAt }) => seenAt)).toEqual([now, now - 300_000]);

    now += 400_000;
    expect(await userSessions.list('u1')).toHaveLength(1);
  });

  test('are bounded: ended sessions are removed first, then the oldest is ended', async () => {
    await records.write('first', dataOf());
    for (let count = 0; count < MAX_SESSIONS - 1; count += 1) {
      now += 10;
      await records.write(`later-${count}`, dataOf());
    }
    await records.end('later-0');
    await records.write('fits', dataOf());
    expect(await isValid('first')).toBe(true);
    expect((await lists.read(keys.sessionsOfUser('u1'))).length).toBe(MAX_SESSIONS);

    await records.write('one-too-many', dataOf());
    expect([await isValid('first'), await isValid('later-1'), await isValid('one-too-many')]).toEqual([
      false,
      true,
      true,
    ]);
    expect((await lists.read(keys.sessionsOfUser('u1'))).length).toBe(MAX_SESSIONS);
  });

  test('keep a session that is not written yet for a minute', async () => {
    const about = { hasEnded: async () => false, end: async () => expect.fail('There is room.') };
    const [early, late] = [now, now + 60_000];
    const startedAt = (index: number) => (index % 2 ? late : early);
    for (let index = 0; index < MAX_SESSIONS; index += 1) {
      const listed = { hash: hashOf(`about-${index}`), startedAt: startedAt(index) };
      expect(await lists.add(keys.sessionsOfUser('u1'), listed, now / 1000, about)).toBe(true);
    }
    // Each is at most a minute old, so all may still begin, and the oldest is ended.
    now = late;
    await records.write('one', dataOf());
    expect((await lists.read(keys.sessionsOfUser('u1'))).length).toBe(MAX_SESSIONS);
    expect((await store.get(keys.session(hashOf('about-0'))))?.value).toBe('ended');

    now += 1;
    await records.write('two', dataOf());
    const remaining = await lists.read(keys.sessionsOfUser('u1'));
    expect(remaining.map(({ startedAt: at }) => at).includes(early)).toBe(false);
    expect(remaining.length).toBe(MAX_SESSIONS / 2 + 2);
  });

  test('have a session once, however often it is added', async () => {
    const storedSessions = { hasEnded: async () => false, end: async () => undefined };
    for (const startedAt of [now, now + 1]) {
      expect(await lists.add('a list', { hash: 'h', startedAt }, 1, storedSessions)).toBe(true);
    }
    expect(await lists.read('a list')).toEqual([{ hash: 'h', startedAt: now + 1 }]);
  });

  test('let a user end only own sessions, by reference', async () => {
    await records.write('one', dataOf());
    now += 10;
    await records.write('two', dataOf());
    const [last, first] = await userSessions.list('u1');
    expect([first?.createdAt, last?.createdAt]).toEqual([now - 10, now]);
    expect(await userSessions.end('u1', 'unknown')).toBe(false);
    expect(await userSessions.end('u2', first?.ref ?? '')).toBe(false);
    expect(await userSessions.end('u1', first?.ref ?? '')).toBe(true);
    expect([await isValid('one'), await isValid('two')]).toEqual([false, true]);
  });

  test('R58 count the valid sessions that the provider ends', async () => {
    await records.write('idle', dataOf());
    now += LIFETIMES.idleSeconds * 1000;
    await records.write('valid', dataOf());
    expect(await userSessions.endByProvider({ userId: 'u1' }, now / 1000)).toBe(1);
    expect(await isValid('valid')).toBe(false);
  });

  test('have all sessions of concurrent sign-ins', async () => {
    await Promise.all(Array.from({ length: 20 }, (_, index) => records.write(`at-once-${index}`, dataOf())));
    expect(await userSessions.list('u1')).toHaveLength(20);
    await userSessions.endAll('u1');
    expect(await userSessions.list('u1')).toEqual([]);
  });

  test('R62 a session that is ended after it is listed and before it is written never begins', async () => {
    const slow = createSessionRecords({
      sealedJson,
      store: {
        ...store,
        write: async (writes, options) => {
          const begins = writes.some(
            (write) => 'put' in write && write.put.startsWith('session:') && write.value !== 'ended',
          );
          if (begins) await userSessions.endAll('u1');
          return store.write(writes, options);
        },
      },
      lists,
      lifetimes: LIFETIMES,
      clock: () => now,
    });
    await slow.write('one', dataOf());
    expect(await isValid('one')).toBe(false);
  });

  test.each([
    ['its session', { providerSession: 'sid' }],
    ['its user', { userId: 'u1' }],
  ] as const)(
    'R58 an ID token issued before the provider ended %s begins no session; a later one does',
    async (_words, target) => {
      const until = now / 1000;
      expect(await userSessions.endByProvider(target, until)).toBe(0);
      await expect(records.write('late', dataOf(until))).rejects.toMatchObject({
        code: 'sign_in_required',
        detail: 'Your provider signed you out while you were signing in here. Sign in again.',
        logDetail: 'the provider ended the session during the sign-in',
      });
      expect(await isValid('late')).toBe(false);

      await records.write('new', dataOf(until + 1));
      expect(await isValid('new')).toBe(true);
      expect(await userSessions.endByProvider(target, until + 1)).toBe(1);

      // An older logout does not replace a newer one.
      await userSessions.endByProvider(target, until);
      await expect(records.write('later', dataOf(until + 1))).rejects.toMatchObject({ code: 'sign_in_required' });
    },
  );
});
