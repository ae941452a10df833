/** The session as JSON, the list of a user's sessions, and the deletion of all data about a user. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { attempt, csrfTokenOf, type HostileSite, isSignedIn, startHostileSite, textOf } from './attempt.ts';

const ADMIN = { sub: 'root', email: 'root@example.test', groups: ['gatehouse-admins'] };
const JSON_ONLY = { accept: 'application/json' };

let site: HostileSite;
let admin: UserAgent;
beforeAll(async () => {
  site = await startHostileSite({
    apps: (provider, url) => [
      provider.app(url),
      provider.app(url, { id: 'files', name: 'Files of the team', signIn: undefined }),
    ],
  });
  admin = await signInAs(ADMIN);
});
afterEach(() => site.provider.reset());
afterAll(() => site.close());

async function signInAs(user: { sub: string; name?: string; email?: string; groups?: string[] }): Promise<UserAgent> {
  site.provider.signInAs(user);
  const { agent, signedIn } = await attempt(site);
  expect(signedIn).toBe(true);
  return agent;
}

interface Session {
  user: { id: string; name: string | null; email: string | null };
  csrfToken: string;
  expiresAt: string;
}
async function readSession(agent: UserAgent): Promise<Session> {
  const { json } = await getJson(agent, `${site.url}/session`);
  return json as unknown as Session;
}

const post = async (agent: UserAgent, path: string) =>
  agent.request(site.url + path, {
    method: 'POST',
    headers: JSON_ONLY,
    body: new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) }),
    follow: false,
  });
/** Waits for the entry, since the audit trail is written in the background. */
const expectAudited = (event: string, user: { id: string }, entry: object) =>
  expect
    .poll(async () => {
      const { items } = (await getJson(admin, `${site.url}/admin/api/audit?event=${event}&limit=50`)).json;
      return (items as { actor: { id: string } }[]).filter(({ actor }) => actor.id === user.id);
    })
    .toMatchObject([{ address: '127.0.0.1', requestId: expect.any(String), ...entry }]);
const titleOf = (html: string) => /<title>([^<]*)<\/title>/.exec(html)?.[1];

describe('the session as JSON', () => {
  test('has the user and its expiry', async () => {
    const agent = await signInAs({ sub: 'ann', name: 'Ann', email: 'ann@example.test' });
    const { user, csrfToken, expiresAt, ...otherMembers } = await readSession(agent);

    expect(user).toEqual({
      id: expect.stringMatching(/^u[\w-]{22}$/),
      issuer: site.provider.issuer,
      subject: 'ann',
      name: 'Ann',
      email: 'ann@example.test',
      admin: false,
    });
    expect(Date.parse(expiresAt)).toBeGreaterThan(Date.now());
    expect([csrfToken.length, otherMembers]).toEqual([43, { signedIn: true }]);
  });

  test('has null for a name and an e-mail address that the provider does not send', async () => {
    site.provider.setModes({ claims: ({ name: _, email: __, ...claims }) => claims });
    const agent = await signInAs({ sub: 'nameless' });

    const { user } = await readSession(agent);

    expect([user.name, user.email]).toEqual([null, null]);
  });
});

describe('the sessions of a user', () => {
  test('are listed with the current one first', async () => {
    const ben = { sub: 'ben', name: 'Ben' };
    const laptop = await signInAs(ben);
    const phone = await signInAs(ben);

    for (const agent of [laptop, phone]) {
      const { items: sessions } = (await getJson(agent, `${site.url}/sessions`)).json;
      expect((sessions as { current: boolean }[]).map(({ current }) => current)).toEqual([true, false]);
      const page = await agent.get(`${site.url}/sessions`);
      expect(titleOf(page.body)).toBe('Where you are signed in · Gatehouse');
    }
  });

  test('are audited when ended by id, by signing out, and everywhere', async () => {
    const cy = { sub: 'cy', email: 'cy@example.test' };
    const laptop = await signInAs(cy);
    const phone = await signInAs(cy);
    const tablet = await signInAs(cy);
    const { user } = await readSession(laptop);
    const { items: sessions } = (await getJson(phone, `${site.url}/sessions`)).json;
    const id = (sessions as { id: string; current: boolean }[]).find(({ current }) => current)?.id;

    expect((await post(laptop, `/sessions/${id}/end`)).status).toBe(200);
    await expectAudited('session.ended', user, { target: { kind: 'session', id } });

    expect((await post(tablet, '/sign-out')).status).toBe(200);
    await expectAudited('session.signed_out', user, {});

    expect((await post(laptop, '/sign-out/everywhere')).status).toBe(200);
    await expectAudited('session.ended_everywhere', user, {});
  });

  test('with an unknown id are not found', async () => {
    const agent = await signInAs({ sub: 'dot' });

    const { status, body } = await post(agent, '/sessions/AAAAAAAAAAAAAAAA/end');

    const detail = 'You have no session with this id, or it ended long ago.';
    expect([status, JSON.parse(body)]).toMatchObject([404, { code: 'not_found', detail }]);
  });
});

describe('R52 the deletion of all data about a user', () => {
  test('asks for confirmation, names each app, signs the user out, and is audited', async () => {
    const agent = await signInAs({ sub: 'eve', name: 'Eve', email: 'eve@example.test' });
    const { user } = await readSession(agent);
    await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Connect' });

    const confirmation = await agent.get(`${site.url}/account/delete`);
    expect(titleOf(confirmation.body)).toBe('Delete all data about you · Gatehouse');
    expect(await isSignedIn(site, agent)).toBe(true);

    const deleted = await agent.submit(confirmation, {}, { button: 'Delete everything' });
    expect(titleOf(deleted.body)).toBe('Deleted · Gatehouse');
    expect(new URL(deleted.url).pathname).toBe('/account/deleted');
    for (const name of ['Elsewhere', 'Files of the team'])
      expect(textOf(deleted.body)).toContain(`${name} : the provider has confirmed that our access is withdrawn.`);
    expect(deleted.body).not.toMatch(/Signed in as|\/sign-out/);
    expect(agent.cookies.header(site.url)).toBe('');

    // The page is shown once. A reload leads to the start page, and does not send the form again.
    expect(new URL((await agent.get(deleted.url)).url).pathname).toBe('/');

    const actor = { kind: 'user', id: user.id, name: 'eve@example.test' };
    await expectAudited('user.deleted', user, { actor, target: { kind: 'user', id: user.id } });
    await expect
      .poll(async () => {
        const { items } = (await getJson(admin, `${site.url}/admin/api/audit?event=connection.removed`)).json;
        return (items as { userId: string }[]).filter(({ userId }) => userId === user.id);
      })
      .toMatchObject(Array(2).fill({ actor, address: '127.0.0.1', outcome: 'revoked' }));
  });

  test('deletes the sign-in records of the user, also those with only an unproven e-mail address', async () => {
    const countRecords = async (email: string) => {
      const path = `/admin/api/sign-ins?q=${encodeURIComponent(email)}`;
      return ((await getJson(admin, site.url + path)).json.items as object[]).length;
    };
    const agent = await signInAs({ sub: 'flo', email: 'flo@example.test' });
    await signInAs({ sub: 'gus', email: 'gus@example.test' });

    // The e-mail address of an ID token that is refused is unproven.
    const inTheFuture = Math.floor(Date.now() / 1000) + 95;
    const refusedClaims = { email: 'flo@example.test', iat: inTheFuture, nbf: inTheFuture };
    site.provider.setModes({ claims: (claims) => ({ ...claims, ...refusedClaims }) });
    expect((await attempt(site)).signedIn).toBe(false);
    expect([await countRecords('flo@example.test'), await countRecords('gus@example.test')]).toEqual([2, 1]);

    expect((await post(agent, '/account/delete')).status).toBe(200);
    expect([await countRecords('flo@example.test'), await countRecords('gus@example.test')]).toEqual([0, 1]);
  });
});
