/** A search of sessions or connections finds those of every matching user. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserStore } from '../../../src/gatehouse/users/user-store.ts';
import { readSeed } from '../../../src/sandbox/seed.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { openSharedStorage } from '../../support/fleet.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

/** The users who sign in, each with one connection. They fill more than one page. */
const LOGINS = Array.from({ length: 55 }, (_, number) => `person-${number + 10}@example.test`);
/** This user has two sessions. */
const LOGIN_WITH_TWO_SESSIONS = String(LOGINS[0]);
/** These users match the search before the others, and are more than one page of a list reads. */
const IDLE_USERS = 110;

let site: TestSite;
let admin: UserAgent;
beforeAll(async () => {
  const { seed } = readSeed(JSON.stringify({ users: LOGINS.map((login) => ({ login, name: login })) }));
  if (seed === undefined) throw new Error('the seed of this test is wrong');
  site = await startSite({ sandbox: { seed } });
  ({ agent: admin } = await signIn(site, 'admin@example.test'));
  for (const login of [...LOGINS, LOGIN_WITH_TWO_SESSIONS]) await signIn(site, login);
});
afterAll(async () => {
  await site?.close();
});

interface List {
  items: { user: { email: string } }[];
  next?: string;
}
const readPage = async (path: string) => {
  const { status, json } = await getJson(admin, `${site.url}/admin/api/${path}`);
  expect(status).toBe(200);
  return json as unknown as List;
};
/** Reads every page. Returns the users in the order of the list, and the number of items of each page. */
const readAll = async (path: string) => {
  const emails: string[] = [];
  const pageSizes: number[] = [];
  let after = '';
  do {
    const { items, next } = await readPage(`${path}${after}`);
    emails.push(...items.map(({ user }) => user.email));
    pageSizes.push(items.length);
    after = next === undefined ? '' : `&after=${encodeURIComponent(next)}`;
  } while (after !== '');
  return { emails, pageSizes };
};
/** Follows the links to the next page, and returns the HTML of each. */
const readAllPages = async (path: string) => {
  const bodies: string[] = [];
  let link: string | undefined = `/admin/${path}?q=person-`;
  while (link !== undefined) {
    const { body } = await admin.get(site.url + link);
    bodies.push(body);
    link = /href="([^"]*after=[^"]*)" rel="next"/.exec(body)?.[1]?.replaceAll('&amp;', '&');
  }
  return bodies;
};

/** The users of all items in each list, in its order. */
const EXPECTED_EMAILS = { connections: LOGINS, sessions: [LOGIN_WITH_TWO_SESSIONS, ...LOGINS] };

test.each(['connections', 'sessions'] as const)(
  '%s: the API returns the items of every matching user, page by page',
  async (path) => {
    const { emails, pageSizes } = await readAll(`${path}?q=person-&limit=10`);
    expect(emails).toEqual(EXPECTED_EMAILS[path]);
    expect(pageSizes).toEqual([10, 10, 10, 10, 10, emails.length - 50]);
    expect((await readAll(`${path}?q=person-&limit=${emails.length}`)).pageSizes).toEqual([emails.length]);
    // The rows of one user stay on one page, even if they exceed the limit.
    expect((await readAll(`${path}?q=person-10&limit=1`)).pageSizes).toEqual([path === 'sessions' ? 2 : 1]);
    expect((await getJson(admin, `${site.url}/admin/api/${path}?q=person-&after=nonsense`)).status).toBe(400);
  },
);

test.each(['connections', 'sessions'] as const)('%s: the pages show every matching user', async (path) => {
  const bodies = await readAllPages(path);
  expect(bodies).toHaveLength(2);
  const shown = LOGINS.filter((login) => bodies.some((body) => body.includes(`<bdi>${login}</bdi>`)));
  expect(shown).toEqual(LOGINS);
});

test('connections: filtered by app', async () => {
  expect((await readAll('connections?q=person-&app=platform&limit=20')).emails).toEqual(LOGINS);
  expect(await readPage('connections?q=person-&app=another')).toEqual({ items: [] });
});

test('a page reads at most 100 users, and the next page continues after them', async () => {
  const vault = await openSharedStorage(site.env);
  const users = createUserStore({ store: vault.store, clock: Date.now });
  for (let at = 0; at < IDLE_USERS; at += 1) {
    const id = `idle-${at}`;
    await users.noteSignIn({ id, issuer: site.sandbox.issuer, subject: id, email: `person-0${at}@example.test` });
  }
  await vault.store.close();
  for (const path of ['connections', 'sessions'] as const) {
    const { emails, pageSizes } = await readAll(`${path}?q=person-&limit=200`);
    expect(emails).toEqual(EXPECTED_EMAILS[path]);
    expect(pageSizes).toEqual([0, emails.length]);
    expect((await readAllPages(path))[0]).toContain(`No ${path} found yet`);
  }
});
