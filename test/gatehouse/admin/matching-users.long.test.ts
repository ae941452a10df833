/** A search of sessions or connections finds those of every matching user. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserStore } from '../../../src/gatehouse/users/user-store.ts';
import { readSeed } from '../../../src/sandbox/seed.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { openSharedStorage } from '../../support/fleet.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

/** More than one page of them, each with one connection; the first is signed in twice. */
const LOGINS = Array.from({ length: 55 }, (_, at) => `person-${at + 10}@example.test`);
const TWICE = String(LOGINS[0]);
/** Found before the others, and more than are read for one page. */
const USERS_WITHOUT_ANY = 110;

let site: TestSite;
let admin: UserAgent;
beforeAll(async () => {
  const { seed } = readSeed(JSON.stringify({ users: LOGINS.map((login) => ({ login, name: login })) }));
  if (seed === undefined) throw new Error('the seed of this test is wrong');
  site = await startSite({ sandbox: { seed } });
  ({ agent: admin } = await signIn(site, 'admin@example.test'));
  for (const login of [...LOGINS, TWICE]) await signIn(site, login);
});
afterAll(async () => {
  await site?.close();
});

interface Answer {
  items: { user: { email: string } }[];
  next?: string;
}
const read = async (path: string) => {
  const { status, json } = await getJson(admin, `${site.url}/admin/api/${path}`);
  expect(status).toBe(200);
  return json as unknown as Answer;
};
const readAll = async (path: string) => {
  const [emails, sizes]: [string[], number[]] = [[], []];
  let next = '';
  do {
    const answer = await read(`${path}${next}`);
    emails.push(...answer.items.map(({ user }) => user.email));
    sizes.push(answer.items.length);
    next = answer.next === undefined ? '' : `&after=${encodeURIComponent(answer.next)}`;
  } while (next !== '');
  return { emails, sizes };
};
const pagesOf = async (path: string) => {
  const bodies: string[] = [];
  let link: string | undefined = `/admin/${path}?q=person-`;
  while (link !== undefined) {
    const { body } = await admin.get(site.url + link);
    bodies.push(body);
    link = /href="([^"]*after=[^"]*)" rel="next"/.exec(body)?.[1]?.replaceAll('&amp;', '&');
  }
  return bodies;
};

const OF_EACH = { connections: LOGINS, sessions: [TWICE, ...LOGINS] };

test.each(['connections', 'sessions'] as const)('%s: by API', async (path) => {
  const { emails, sizes } = await readAll(`${path}?q=person-&limit=10`);
  expect(emails).toEqual(OF_EACH[path]);
  expect(sizes).toEqual([10, 10, 10, 10, 10, emails.length - 50]);
  expect((await readAll(`${path}?q=person-&limit=${emails.length}`)).sizes).toEqual([emails.length]);
  // The rows of one user stay on one page, even if they exceed the limit.
  expect((await readAll(`${path}?q=person-10&limit=1`)).sizes).toEqual([path === 'sessions' ? 2 : 1]);
  expect((await getJson(admin, `${site.url}/admin/api/${path}?q=person-&after=nonsense`)).status).toBe(400);
});

test.each(['connections', 'sessions'] as const)('%s: by page', async (path) => {
  const bodies = await pagesOf(path);
  expect(bodies).toHaveLength(2);
  const shown = LOGINS.filter((login) => bodies.some((body) => body.includes(`<bdi>${login}</bdi>`)));
  expect(shown).toEqual(LOGINS);
});

test('connections: filtered by app', async () => {
  expect((await readAll('connections?q=person-&app=platform&limit=20')).emails).toEqual(LOGINS);
  expect(await read('connections?q=person-&app=another')).toEqual({ items: [] });
});

test('a page reads at most 100 users, and the next page continues after them', async () => {
  const vault = await openSharedStorage(site.env);
  const users = createUserStore({ store: vault.store, clock: Date.now });
  for (let at = 0; at < USERS_WITHOUT_ANY; at += 1) {
    const id = `idle-${at}`;
    await users.noteSignIn({ id, issuer: site.sandbox.issuer, subject: id, email: `person-0${at}@example.test` });
  }
  await vault.store.close();
  for (const path of ['connections', 'sessions'] as const) {
    const { emails, sizes } = await readAll(`${path}?q=person-&limit=200`);
    expect(emails).toEqual(OF_EACH[path]);
    expect(sizes).toEqual([0, emails.length]);
    expect((await pagesOf(path))[0]).toContain(`No ${path} found yet`);
  }
});
