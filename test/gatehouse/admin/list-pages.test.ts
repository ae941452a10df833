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
  for (let number = 1; number <= TOKENS; number += 1) {
    await admin.createRelayToken({ name: `token-${number}`, apps: number % 40 === 0 ? ['second'] : ['platform'] });
  }
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

const LIST = '/admin/relay-tokens';
const open = (path: string) => agent.get(site.url + path);
const follow = (page: Page, linkText: string) => agent.follow(page, linkText);
const namesOn = ({ body }: Page) =>
  [...body.matchAll(/<th scope="row"><a [^>]*><bdi>([^<]*)/g)].map(([, name]) => name);
const countOn = ({ body }: Page) => /class="filters-count">(.*?)<a /s.exec(body)?.[1]?.replaceAll(/\s+/g, ' ').trim();
/** The names of tokens in the order of the list. */
const namesFrom = (first: number, last: number) =>
  Array.from({ length: first - last + 1 }, (_, offset) => `token-${first - offset}`);

describe('the position in the list', () => {
  test('Next and Previous lead through every page and back, with row numbers', async () => {
    const firstPage = await open(LIST);
    expect([namesOn(firstPage), countOn(firstPage)]).toEqual([namesFrom(120, 71), '1–50 of 120']);
    expect(linkOn(firstPage, 'Previous')).toBeUndefined();
    const secondPage = await follow(firstPage, 'Next');
    expect([namesOn(secondPage), countOn(secondPage)]).toEqual([namesFrom(70, 21), '51–100 of 120']);
    const thirdPage = await follow(secondPage, 'Next');
    expect([namesOn(thirdPage), countOn(thirdPage)]).toEqual([namesFrom(20, 1), '101–120 of 120']);
    expect(linkOn(thirdPage, 'Next')).toBeUndefined();
    const secondPageAgain = await follow(thirdPage, 'Previous');
    expect([namesOn(secondPageAgain), countOn(secondPageAgain)]).toEqual([namesFrom(70, 21), '51–100 of 120']);
    const firstPageAgain = await follow(secondPageAgain, 'Previous');
    expect([namesOn(firstPageAgain), countOn(firstPageAgain), firstPageAgain.url]).toEqual([
      namesFrom(120, 71),
      '1–50 of 120',
      `${site.url}${LIST}?`,
    ]);
  });

  test('a filter applies to every page, and is selected in the form', async () => {
    const firstPage = await open(`${LIST}?app=platform&q=token`);
    expect(countOn(firstPage)).toBe('1–50');
    expect(firstPage.body).toMatch(/<option value="platform" selected>/);
    const secondPage = await follow(firstPage, 'Next');
    expect([...new URL(secondPage.url).searchParams.entries()].slice(0, 2)).toEqual([
      ['q', 'token'],
      ['app', 'platform'],
    ]);
    const thirdPage = await follow(secondPage, 'Next');
    expect(countOn(thirdPage)).toBe('101–117 of 117');
    const firstPageAgain = await follow(await follow(thirdPage, 'Previous'), 'Previous');
    expect(new URL(firstPageAgain.url).search).toBe('?q=token&app=platform');
    expect(namesOn(await open(`${LIST}?app=second`))).toEqual(['token-120', 'token-80', 'token-40']);
    expect(namesOn(await open(`${LIST}?state=expired`))).toEqual([]);
    expect((await open(`${LIST}?scope=bin:read`)).body).toContain('token-120');
    expect((await admin.call('GET', '/relay-tokens?app=second')).json.items).toHaveLength(3);
    expect((await admin.call('GET', '/relay-tokens?state=nonsense')).status).toBe(400);
  });

  test('a page without a trail leads back to the first page', async () => {
    const secondPage = await follow(await open(LIST), 'Next');
    const { searchParams } = new URL(secondPage.url);

    const withoutTrail = await open(`${LIST}?after=${searchParams.get('after')}`);

    expect([namesOn(withoutTrail), countOn(withoutTrail)]).toEqual([namesFrom(70, 21), '']);
    expect(namesOn(await follow(withoutTrail, 'Previous'))).toEqual(namesFrom(120, 71));
  });

  test.each([
    ['a cursor of another list', 'after=nonsense', 'Start again without it'],
    ['row number 0', 'after=x&row=0', 'Open the list again'],
    ['a trail entry without a cursor', 'after=x&row=51&trail=1', 'Open the list again'],
    ['an empty trail entry', 'after=x&row=51&trail=1~,,', 'Open the list again'],
    ['a long trail', `after=x&row=51&trail=${'1~,'.repeat(1_000)}1~`, 'Open the list again'],
    ['a long cursor', `after=${'x'.repeat(501)}`, 'Open the list again'],
  ])('refuses a position that no page links to: %s', async (_, query, words) => {
    const page = await open(`${LIST}?${query}`);
    expect([page.status, page.body]).toEqual([400, expect.stringContaining(words)]);
  });

  test('the trail has a limit: the oldest pages are dropped', async () => {
    const { searchParams } = new URL((await follow(await open(LIST), 'Next')).url);
    const after = searchParams.get('after') ?? '';
    const trail = Array.from({ length: 1_990 / (after.length + 5) }, (_, at) => `${100 + at}~${after}`).join(',');
    const page = await open(`${LIST}?after=${after}&row=5000&trail=${encodeURIComponent(trail)}`);
    const next = new URL(linkOn(page, 'Next') ?? '', page.url).searchParams.get('trail') ?? '';
    expect(next.length).toBeLessThanOrEqual(2_000);
    expect(next.startsWith('100~')).toBe(false);
    expect(next.endsWith(`5000~${after}`)).toBe(true);
  });
});

describe('the export', () => {
  test('has every matching row, and an audit entry', async () => {
    const page = await open(`${LIST}?app=platform`);
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
      await open(`/admin/${list}?q=${token}&format=csv`);
      const { json } = await admin.call('GET', '/audit?event=list.exported&limit=1');
      const [entry] = json.items as { facts: object }[];
      expect(Object.values(entry?.facts ?? {})).toEqual([token.slice(0, 16)]);
      await admin.call('DELETE', `/relay-tokens/${id}`);
    },
  );

  test.each(['/admin/relay-tokens?format=csv', '/admin/audit?format=csv', '/admin/api/audit?format=ndjson'])(
    '%s: a request of another site, or a HEAD, begins no export and writes no audit entry',
    async (path) => {
      const countEntries = async () => {
        let count = 0;
        for (const event of ['list.exported', 'audit.exported']) {
          const { json } = await admin.call('GET', `/audit?event=${event}&limit=200`);
          count += (json.items as unknown[]).length;
        }
        return count;
      };
      const countBefore = await countEntries();
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

      for (const fetchSite of ['cross-site', 'same-site']) {
        const refused = await send('GET', fetchSite);
        expect([fetchSite, refused.status, refused.headers['content-disposition']]).toEqual([
          fetchSite,
          403,
          undefined,
        ]);
      }
      const head = await send('HEAD', 'none');
      expect([head.status, head.headers.allow, head.headers['content-disposition']]).toEqual([405, 'GET', undefined]);
      expect(await countEntries()).toBe(countBefore);

      for (const fetchSite of ['none', 'same-origin']) {
        expect([fetchSite, (await send('GET', fetchSite)).status]).toEqual([fetchSite, 200]);
      }
      expect(await countEntries()).toBe(countBefore + 2);
    },
  );

  test.each(['=1+1', '+1', '-1', '@SUM(A1)', '\t=1'])(
    'a name that a spreadsheet would run as a formula is exported as text: %j',
    async (name) => {
      const { id } = await admin.createRelayToken({ name: `${name}"x` });
      const csv = await open(`${LIST}?q=${id}&format=csv`);
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

describe('the confirmation', () => {
  test('comes before the action, and leads back to the same page of the list', async () => {
    const list = await open(`${LIST}?app=second`);
    const question = await follow(list, 'Revoke…');
    expect(question.body).toMatch(/<h1 [^>]*>Revoke the relay token <bdi>token-120<\/bdi>\?/);
    expect(question.body).toMatch(/<a [^>]*href="\/admin\/relay-tokens\?app=second" autofocus/);
    expect(namesOn(await open(`${LIST}?app=second`))).toContain('token-120');
    const done = await agent.submit(question, {}, { button: 'Revoke relay token' });
    expect(new URL(done.url).searchParams.get('app')).toBe('second');
    expect(namesOn(done)).toEqual(['token-80', 'token-40']);
    expect(done.body).toContain('Relay token revoked.');
  });

  test.each([
    'https://elsewhere.example/',
    '//elsewhere.example/admin/',
    '/connections',
    '/administration',
    '/admin/../connections',
  ])('never leads outside the administration: %s', async (back) => {
    const { id } = await admin.createRelayToken({ name: 'to revoke' });
    const question = await open(`${LIST}/${id}/revoke?back=${encodeURIComponent(back)}`);
    expect(question.body).not.toContain('elsewhere');
    expect(question.body).toMatch(/<a [^>]*href="\/admin\/relay-tokens" autofocus/);
    const { csrfToken } = await sessionOf(site, agent);
    const body = new URLSearchParams({ _csrf: csrfToken, back });
    const done = await agent.request(`${site.url}${LIST}/${id}/revoke`, { method: 'POST', body, follow: false });
    expect([done.status, done.headers.get('location')?.split('?')[0]]).toEqual([303, LIST]);
  });

  test('names several selected items, and each has an audit entry', async () => {
    const ids = [];
    for (const name of ['one', 'two', 'three']) ids.push((await admin.createRelayToken({ name })).id);
    const query = new URLSearchParams(ids.map((id) => ['id', id]));
    const question = await open(`${LIST}/revoke?${query}&id=gone&id=${ids[0]}`);
    expect(question.body).toMatch(/<h1 [^>]*>Revoke 3 relay tokens\?/);
    for (const name of ['one', 'two', 'three']) expect(question.body).toContain(`<li><bdi>${name}</bdi></li>`);
    const done = await agent.submit(question, {}, { button: 'Revoke 3 relay tokens' });
    expect(done.body).toContain('3 relay tokens revoked.');
    const { json } = await admin.call('GET', '/audit?event=relay_token.revoked&limit=3');
    expect((json.items as { target: { id: string } }[]).map(({ target }) => target.id).toSorted()).toEqual(
      ids.toSorted(),
    );
    expect((await open(`${LIST}/revoke`)).status).toBe(404);
    const many = Array.from({ length: 101 }, (_, at) => `id=${at}`).join('&');
    expect((await open(`${LIST}/revoke?${many}`)).status).toBe(400);
  });

  test('warns about the administrator’s own account', async () => {
    const { userId } = await sessionOf(site, agent);
    expect((await open('/admin/users')).body).toMatch(/Ada Moreau<\/bdi><\/a> <span class="own">you<\/span>/);
    for (const action of ['sign-out', 'disable', 'delete']) {
      expect((await open(`/admin/users/${userId}/${action}`)).body).toContain('This is your own account');
    }
  });
});
