/** Pages of lists: filters and position in the address, Previous, the export, and confirmation. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { linkOn, type Page, type UserAgent } from '../../support/browserless.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

const TOKENS = 120;

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite({
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second')],
    env: { ADMIN_APP: 'platform' },
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' }));
  for (let at = 1; at <= TOKENS; at += 1) {
    await admin.createRelayToken({ name: `token-${at}`, apps: at % 40 === 0 ? ['second'] : ['platform'] });
  }
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

const HOME = '/admin/relay-tokens';
const open = (path: string) => agent.get(site.url + path);
const names = ({ body }: Page) => [...body.matchAll(/<th scope="row"><a [^>]*><bdi>([^<]*)/g)].map(([, name]) => name);
const follow = (page: Page, words: string) => agent.follow(page, words);
const countOn = ({ body }: Page) => /class="filters-count">(.*?)<a /s.exec(body)?.[1]?.replaceAll(/\s+/g, ' ').trim();
const from = (first: number, last: number) =>
  Array.from({ length: first - last + 1 }, (_, at) => `token-${first - at}`);

describe('the position in the list', () => {
  test('Next and Previous lead through every page and back, with row numbers', async () => {
    const first = await open(HOME);
    expect([names(first), countOn(first)]).toEqual([from(120, 71), '1–50 of 120']);
    expect(linkOn(first, 'Previous')).toBeUndefined();
    const second = await follow(first, 'Next');
    expect([names(second), countOn(second)]).toEqual([from(70, 21), '51–100 of 120']);
    const third = await follow(second, 'Next');
    expect([names(third), countOn(third)]).toEqual([from(20, 1), '101–120 of 120']);
    expect(linkOn(third, 'Next')).toBeUndefined();
    const back = await follow(third, 'Previous');
    expect([names(back), countOn(back)]).toEqual([from(70, 21), '51–100 of 120']);
    const start = await follow(back, 'Previous');
    expect([names(start), countOn(start), start.url]).toEqual([from(120, 71), '1–50 of 120', `${site.url}${HOME}?`]);
  });

  test('a filter applies to every page, and is selected in the form', async () => {
    const first = await open(`${HOME}?app=platform&q=token`);
    expect(countOn(first)).toBe('1–50');
    expect(first.body).toMatch(/<option value="platform" selected>/);
    const second = await follow(first, 'Next');
    expect([...new URL(second.url).searchParams.entries()].slice(0, 2)).toEqual([
      ['q', 'token'],
      ['app', 'platform'],
    ]);
    const third = await follow(second, 'Next');
    expect(countOn(third)).toBe('101–117 of 117');
    const start = await follow(await follow(third, 'Previous'), 'Previous');
    expect(new URL(start.url).search).toBe('?q=token&app=platform');
    expect(names(await open(`${HOME}?app=second`))).toEqual(['token-120', 'token-80', 'token-40']);
    expect(names(await open(`${HOME}?state=expired`))).toEqual([]);
    expect((await open(`${HOME}?scope=bin:read`)).body).toContain('token-120');
    expect((await admin.call('GET', '/relay-tokens?app=second')).json.items).toHaveLength(3);
    expect((await admin.call('GET', '/relay-tokens?state=nonsense')).status).toBe(400);
  });

  test('a page without a trail leads back to the first page', async () => {
    const second = await follow(await open(HOME), 'Next');
    const { searchParams } = new URL(second.url);
    const bare = await open(`${HOME}?after=${searchParams.get('after')}`);
    expect([names(bare), countOn(bare)]).toEqual([from(70, 21), '']);
    expect(names(await follow(bare, 'Previous'))).toEqual(from(120, 71));
  });

  test.each([
    ['a cursor of another list', 'after=nonsense', 'Start again without it'],
    ['no row', 'after=x&row=0', 'Open the list again'],
    ['an entry without a cursor', 'after=x&row=51&trail=1', 'Open the list again'],
    ['an empty entry', 'after=x&row=51&trail=1~,,', 'Open the list again'],
    ['a long trail', `after=x&row=51&trail=${'1~,'.repeat(1_000)}1~`, 'Open the list again'],
    ['a long cursor', `after=${'x'.repeat(501)}`, 'Open the list again'],
  ])('refuses a position that no page links to: %s', async (_, query, words) => {
    const page = await open(`${HOME}?${query}`);
    expect([page.status, page.body]).toEqual([400, expect.stringContaining(words)]);
  });

  test('the trail has a limit: the oldest pages are dropped', async () => {
    const { searchParams } = new URL((await follow(await open(HOME), 'Next')).url);
    const after = searchParams.get('after') ?? '';
    const trail = Array.from({ length: 1_990 / (after.length + 5) }, (_, at) => `${100 + at}~${after}`).join(',');
    const page = await open(`${HOME}?after=${after}&row=5000&trail=${encodeURIComponent(trail)}`);
    const next = new URL(linkOn(page, 'Next') ?? '', page.url).searchParams.get('trail') ?? '';
    expect(next.length).toBeLessThanOrEqual(2_000);
    expect(next.startsWith('100~')).toBe(false);
    expect(next.endsWith(`5000~${after}`)).toBe(true);
  });
});

describe('the export', () => {
  test('has every matching row, and an audit entry', async () => {
    const page = await open(`${HOME}?app=platform`);
    const csv = await follow(page, 'CSV');
    expect([csv.status, csv.headers.get('content-type')]).toEqual([200, 'text/csv; charset=utf-8']);
    expect(csv.headers.get('content-disposition')).toBe('attachment; filename="relay-tokens.csv"');
    const [head, ...rows] = csv.body.trimEnd().split('\r\n');
    expect(head?.replace('\ufeff', '')).toMatch(/^"Name","ID","Apps","Scopes","Users",/);
    expect(rows).toHaveLength(117);
    expect(rows[0]).toMatch(/^"token-119","[\w-]{11}","Collaboration platform",/);
    const { json } = await admin.call('GET', '/audit?event=list.exported&limit=1');
    expect(json.items).toMatchObject([{ target: { kind: 'list', id: 'relay-tokens' }, facts: { app: 'platform' } }]);
  });

  test.each(['relay-tokens', 'audit'])(
    'a token that was pasted into the search of %s is not in its audit entry',
    async (list) => {
      const { id, token } = await admin.createRelayToken({ name: 'pasted' });
      await open(`/admin/${list}?${list === 'audit' ? 'text' : 'q'}=${token}&format=csv`);
      const { json } = await admin.call('GET', '/audit?event=list.exported&limit=1');
      const [entry] = json.items as { facts: object }[];
      expect(Object.values(entry?.facts ?? {})).toEqual([token.slice(0, 16)]);
      await admin.call('DELETE', `/relay-tokens/${id}`);
    },
  );

  test.each(['/admin/relay-tokens?format=csv', '/admin/audit?format=csv', '/admin/api/audit?format=ndjson'])(
    '%s: no other site and no HEAD begins it, or writes an entry',
    async (path) => {
      const entries = async () => {
        const [lists, trail] = await Promise.all(
          ['list.exported', 'audit.exported'].map((event) => admin.call('GET', `/audit?event=${event}&limit=200`)),
        );
        return [lists?.json.items, trail?.json.items].flat().length;
      };
      const before = await entries();
      const send = (method: string, fetchSite: string) =>
        sendRequest(site.url + path, {
          method,
          headers: {
            ...ACCEPT_HTML,
            cookie: agent.cookies.header(site.url),
            'sec-fetch-site': fetchSite,
            'sec-fetch-mode': 'navigate',
          },
        });
      for (const from of ['cross-site', 'same-site']) {
        const refused = await send('GET', from);
        expect([from, refused.status, refused.headers['content-disposition']]).toEqual([from, 403, undefined]);
      }
      const head = await send('HEAD', 'none');
      expect([head.status, head.headers.allow, head.headers['content-disposition']]).toEqual([405, 'GET', undefined]);
      expect(await entries()).toBe(before);
      for (const from of ['none', 'same-origin']) expect([from, (await send('GET', from)).status]).toEqual([from, 200]);
      expect(await entries()).toBe(before + 2);
    },
  );

  test.each(['=1+1', '+1', '-1', '@SUM(A1)', '\t=1'])(
    'a text that a spreadsheet would run is text: %j',
    async (name) => {
      const { id } = await admin.createRelayToken({ name: `${name}"x` });
      const csv = await open(`${HOME}?q=${id}&format=csv`);
      expect(csv.body).toContain(`"'${name.trim()}""x","${id}"`);
      await admin.call('DELETE', `/relay-tokens/${id}`);
    },
  );

  test('users: names, addresses and ids', async () => {
    const csv = await open('/admin/users?format=csv');
    expect(csv.body).toContain('"Ada Moreau","admin@example.test"');
  });

  test('R118 connections: with their ids', async () => {
    const [head, ...rows] = (await open('/admin/connections?format=csv')).body.trimEnd().split('\r\n');
    expect(head).toContain('"User ID","App","ID",');
    const items = (await admin.call('GET', '/connections')).json.items as {
      id: string;
      user: { id: string };
      appName: string;
    }[];
    expect(rows).toEqual(
      items.map(({ id, user, appName }) => expect.stringContaining(`"${user.id}","${appName}","${id}",`)),
    );
  });
});

describe('the question', () => {
  test('comes before the action, and leads back to the same page of the list', async () => {
    const list = await open(`${HOME}?app=second`);
    const question = await follow(list, 'Revoke…');
    expect(question.body).toMatch(/<h1 [^>]*>Revoke the relay token <bdi>token-120<\/bdi>\?/);
    expect(question.body).toMatch(/<a [^>]*href="\/admin\/relay-tokens\?app=second" autofocus/);
    expect(names(await open(`${HOME}?app=second`))).toContain('token-120');
    const done = await agent.submit(question, {}, { button: 'Revoke relay token' });
    expect(new URL(done.url).searchParams.get('app')).toBe('second');
    expect(names(done)).toEqual(['token-80', 'token-40']);
    expect(done.body).toContain('Relay token revoked.');
  });

  test.each([
    'https://elsewhere.example/',
    '//elsewhere.example/admin/',
    '/connections',
    '/administration',
    '/admin/../connections',
  ])('never leads outside the administration: %s', async (back) => {
    const { id } = await admin.createRelayToken({ name: 'asked' });
    const question = await open(`${HOME}/${id}/revoke?back=${encodeURIComponent(back)}`);
    expect(question.body).not.toContain('elsewhere');
    expect(question.body).toMatch(/<a [^>]*href="\/admin\/relay-tokens" autofocus/);
    const { csrfToken } = await sessionOf(site, agent);
    const body = new URLSearchParams({ _csrf: csrfToken, back });
    const done = await agent.request(`${site.url}${HOME}/${id}/revoke`, { method: 'POST', body, follow: false });
    expect([done.status, done.headers.get('location')?.split('?')[0]]).toEqual([303, HOME]);
  });

  test('names several selected items, and each has an audit entry', async () => {
    const ids = [];
    for (const name of ['one', 'two', 'three']) ids.push((await admin.createRelayToken({ name })).id);
    const query = new URLSearchParams(ids.map((id) => ['id', id]));
    const question = await open(`${HOME}/revoke?${query}&id=gone&id=${ids[0]}`);
    expect(question.body).toMatch(/<h1 [^>]*>Revoke 3 relay tokens\?/);
    for (const name of ['one', 'two', 'three']) expect(question.body).toContain(`<li><bdi>${name}</bdi></li>`);
    const done = await agent.submit(question, {}, { button: 'Revoke 3 relay tokens' });
    expect(done.body).toContain('3 relay tokens revoked.');
    const { json } = await admin.call('GET', '/audit?event=relay_token.revoked&limit=3');
    expect((json.items as { target: { id: string } }[]).map(({ target }) => target.id).toSorted()).toEqual(
      ids.toSorted(),
    );
    expect((await open(`${HOME}/revoke`)).status).toBe(404);
    const many = Array.from({ length: 101 }, (_, at) => `id=${at}`).join('&');
    expect((await open(`${HOME}/revoke?${many}`)).status).toBe(400);
  });

  test('warns about the administrator’s own account', async () => {
    const { userId } = await sessionOf(site, agent);
    expect((await open('/admin/users')).body).toMatch(/Ada Moreau<\/bdi><\/a> <span class="own">you<\/span>/);
    for (const action of ['sign-out', 'disable', 'delete']) {
      expect((await open(`/admin/users/${userId}/${action}`)).body).toContain('This is your own account');
    }
  });
});
