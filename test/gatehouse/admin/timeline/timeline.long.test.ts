/** The timelines of a user, an app and a relay token, through the API and on pages. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../../support/browserless.ts';
import { openSharedStorage } from '../../../support/fleet.ts';
import { getJson, PASSWORD, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { until } from '../../../support/until.ts';
import { type Administrator, assertionOf, createAdministrator, relayThread } from '../../relay/service.ts';

interface Item {
  id: string;
  at: string;
  until: string | null;
  kind: string;
  event: string;
  text: string;
  actor: { kind: string; id: string | null; name: string | null } | null;
  user: { id: string; name: string | null } | null;
  app: { id: string; name: string } | null;
  address: string | null;
  calls: number | null;
  signInId: string | null;
  details: Record<string, string>;
}
interface Page {
  items: Item[];
  next?: string;
}

let site: TestSite;
let vault: Awaited<ReturnType<typeof openSharedStorage>>;
let admin: UserAgent;
let api: Administrator;
let agent: UserAgent;
let userId: string;
let tokenId: string;
beforeAll(async () => {
  site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
  });
  vault = await openSharedStorage(site.env);
  api = await createAdministrator(site, vault);
  ({ agent: admin } = await signIn(site, 'admin@example.test'));
  ({ agent } = await signIn(site));
  userId = ((await getJson(agent, `${site.url}/session`)).json.user as { id: string }).id;
  const { id, token } = await api.createRelayToken({ name: 'nightly reports' });
  tokenId = id;
  const asUser = { 'gatehouse-user-assertion': await assertionOf(site, agent.cookies.header(site.url)) };
  for (let call = 0; call < 3; call += 1) expect((await relayThread(site, token, asUser)).status).toBe(200);
  expect((await relayThread(site, token, { 'gatehouse-user': userId })).status).toBe(403);
  const denied = createUserAgent();
  const form = await denied.get(`${site.url}/sign-in`);
  const consent = await denied.submit(form, { login: 'user@example.test', password: PASSWORD });
  await denied.submit(consent, {}, { button: 'Deny' });
  expect((await api.call('POST', `/relay-tokens/${id}/rotate`, {})).status).toBe(200);
  await until(async () => (await readTimeline(`users/${userId}`)).items.some(({ calls }) => calls === 3));
  // The sums are written several times a second, so the refused call may come later than the others.
  await until(async () =>
    textsOf(await readTimeline('connected-apps/platform')).some((text) => text.startsWith('Refused 1')),
  );
});
afterAll(async () => {
  await vault?.store.close();
  await site?.close();
});

const readTimeline = async (path: string, query = '') => {
  const { status, json } = await api.call('GET', `/${path}/timeline${query}`);
  expect([status, json]).toEqual([200, json]);
  return json as unknown as Page;
};
const textsOf = ({ items }: Page) => items.map(({ text }) => text);

test('of a user: sign-ins, consents, sums of calls and refusals, with names', async () => {
  const page = await readTimeline(`users/${userId}`);
  expect(page.items.map(({ at }) => at)).toEqual(
    page.items
      .map(({ at }) => at)
      .toSorted()
      .reverse(),
  );
  expect(textsOf(page)).toEqual(
    expect.arrayContaining([
      'Signed in with Collaboration platform',
      expect.stringMatching(/^Consented to Collaboration platform: openid, /),
      'nightly reports made 3 calls to Collaboration platform',
      'Refused a call by nightly reports to Collaboration platform: rule assertUser',
    ]),
  );
  const sum = page.items.find(({ event }) => event === 'relay.calls');
  expect(sum).toMatchObject({ kind: 'relay', calls: 3, app: { id: 'platform' }, actor: { id: tokenId } });
  expect(Date.parse(String(sum?.until)) - Date.parse(String(sum?.at))).toBe(3_600_000);
  const refusal = page.items.find(({ kind }) => kind === 'refusals');
  expect(refusal).toMatchObject({ address: '127.0.0.1', actor: { kind: 'relay_token', name: 'nightly reports' } });
  expect(refusal?.details.requestId).toMatch(/-/);
});

test('of a relay token: its changes, its calls and its refusals', async () => {
  const page = await readTimeline(`relay-tokens/${tokenId}`);
  expect(textsOf(page).toSorted()).toEqual([
    'Made 3 calls to Collaboration platform',
    'Refused 1 call to Collaboration platform: rule assertUser',
    'Relay token created',
    'Relay token rotated',
  ]);
  expect(page.items.find(({ event }) => event === 'relay_token.rotated')?.actor).toMatchObject({
    kind: 'admin_token',
    name: 'test',
  });
});

test('of an app: events of users and services, with the actors', async () => {
  const page = await readTimeline('connected-apps/platform');
  const signedIn = page.items.filter(({ event }) => event === 'sign_in.succeeded');
  expect(signedIn.map(({ user }) => user?.id)).toContain(userId);
  expect(signedIn.map(({ user }) => user?.name)).toContain('Uma Okafor');
  expect(textsOf(page)).toEqual(
    expect.arrayContaining([
      'nightly reports made 3 calls to Collaboration platform',
      expect.stringMatching(/^Consented to Collaboration platform: /),
      'Could not sign in with Collaboration platform: The user or their organization did not consent',
    ]),
  );
  // The audit trail has an entry for each call. The timeline of a busy app would be unreadable with all of them.
  expect(page.items.filter(({ event }) => event === 'relay.used')).toEqual([]);
});

test('is filtered by kind, and its pages have each item once', async () => {
  for (const path of [`users/${userId}`, 'connected-apps/platform', `relay-tokens/${tokenId}`]) {
    const all = (await readTimeline(path, '?limit=200')).items;
    for (const kind of new Set(all.map((item) => item.kind))) {
      const ofKind = (await readTimeline(path, `?kind=${kind}`)).items;
      const expected = all.filter((item) => item.kind === kind);
      expect([path, kind, ofKind.map(({ id }) => id)]).toEqual([path, kind, expected.map(({ id }) => id)]);
    }

    const pagedIds: string[] = [];
    let query: string | undefined = '?limit=1';
    while (query !== undefined) {
      const { items, next }: Page = await readTimeline(path, query);
      pagedIds.push(...items.map(({ id }) => id));
      query = next === undefined ? undefined : `?limit=1&after=${encodeURIComponent(next)}`;
    }
    expect([path, pagedIds]).toEqual([path, all.map(({ id }) => id)]);
  }
  expect((await api.call('GET', `/users/${userId}/timeline?kind=other`)).status).toBe(400);
  expect((await api.call('GET', `/users/${userId}/timeline?after=other`)).status).toBe(400);
  for (const path of ['users/none', 'connected-apps/none', 'relay-tokens/none']) {
    expect([path, (await api.call('GET', `/${path}/timeline`)).status]).toEqual([path, 404]);
  }
});

test('a change of health is listed once, even if later refreshes fail', async () => {
  const heal = site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'unavailable' });
  const failRefresh = async (isRepeated: boolean) => {
    const stored = await vault.grants.loadStored(userId, 'platform');
    if (!stored || !('grant' in stored)) throw new Error('The grant cannot be read.');
    const { grant, version } = stored;
    const failure = grant.failure && { ...grant.failure, retryAt: 0 };
    await vault.grants.save({ ...grant, expiresAt: Date.now() - 1_000, failure }, version);
    await agent.get(`${site.url}/threads/current`, { headers: { accept: 'application/json' } });
    await until(async () => {
      const { json } = await api.call('GET', `/audit?event=refresh.failed&target=${userId}`);
      const entries = json.items as { facts: { repeated?: boolean } }[];
      return entries.length === (isRepeated ? 2 : 1);
    });
  };
  await failRefresh(false);
  await failRefresh(true);
  const { items } = await readTimeline(`users/${userId}`, '?kind=connections');
  expect(items.filter(({ event }) => event === 'refresh.failed').map(({ text }) => text)).toEqual([
    'A refresh of the connection to Collaboration platform failed: The provider is not available',
  ]);
  heal();
});

test('pages show it by day, with links and a filter', async () => {
  const { body } = await admin.get(`${site.url}/admin/users/${userId}`);
  const section = /<section class="panel timeline".*?<\/section>/s.exec(body)?.[0] ?? '';
  expect(section).toContain('Signed in with Collaboration platform');
  expect(section).toContain(`href="/admin/relay-tokens/${tokenId}"><bdi>nightly reports</bdi>`);
  const token = await admin.get(`${site.url}/admin/relay-tokens/${tokenId}?kind=changes`);
  expect(token.body).toContain('Relay token rotated');
  expect(token.body).not.toContain('Made 3 calls');
  const app = await admin.get(`${site.url}/admin/connected-apps/platform/activity?kind=refusals`);
  expect(app.body).toContain('Refused 1 call by nightly reports');
  expect(app.body).not.toContain('Signed in with');
});

test('has no links to deleted users, tokens or sign-ins', async () => {
  const { agent: agentOfDeletedUser } = await signIn(site, 'second@example.test');
  const deletedUserId = ((await getJson(agentOfDeletedUser, `${site.url}/session`)).json.user as { id: string }).id;
  const { id: revokedTokenId, token } = await api.createRelayToken({ name: 'soon revoked' });
  const asUser = { 'gatehouse-user-assertion': await assertionOf(site, agentOfDeletedUser.cookies.header(site.url)) };
  expect((await relayThread(site, token, asUser)).status).toBe(200);
  await until(async () =>
    textsOf(await readTimeline('connected-apps/platform')).includes(
      'soon revoked made 1 call to Collaboration platform',
    ),
  );
  /** Opens every link, and returns which of the two are named and which are linked. */
  const readMentions = async () => {
    const { body } = await admin.get(`${site.url}/admin/connected-apps/platform/activity`);
    const section = /<section class="panel timeline".*?<\/section>/s.exec(body)?.[0] ?? '';
    const links = [...section.matchAll(/href="(\/admin\/(?:users|relay-tokens|sign-ins)\/[^"]*)"/g)].map(
      ([, path]) => path,
    );
    for (const path of new Set(links)) expect([path, (await admin.get(site.url + path)).status]).toEqual([path, 200]);
    expect(links.filter((path) => path?.startsWith('/admin/sign-ins/')).length).toBeGreaterThan(0);
    return {
      isUserNamed: section.includes(deletedUserId),
      isTokenNamed: section.includes(revokedTokenId),
      isUserLinked: links.some((path) => path?.endsWith(deletedUserId)),
      isTokenLinked: links.some((path) => path?.endsWith(revokedTokenId)),
    };
  };
  const named = { isUserNamed: true, isTokenNamed: true };
  expect(await readMentions()).toEqual({ ...named, isUserLinked: true, isTokenLinked: true });

  expect((await api.call('DELETE', `/relay-tokens/${revokedTokenId}`)).status).toBe(204);
  expect((await api.call('DELETE', `/users/${deletedUserId}`)).status).toBe(200);

  expect(await readMentions()).toEqual({ ...named, isUserLinked: false, isTokenLinked: false });
  const signedIn = (await readTimeline('connected-apps/platform', '?kind=sign_ins')).items.filter(
    ({ actor }) => actor?.id === deletedUserId,
  );
  expect(signedIn.map(({ signInId }) => signInId)).toEqual([null]);
});

test('pages lead to older items and back', async () => {
  for (let n = 0; n < 30; n += 1) await signIn(site);
  await until(async () => (await readTimeline(`users/${userId}`, '?limit=200')).items.length > 60);
  const shownTexts = (body: string) =>
    [...body.matchAll(/class="timeline-text">.*?<bdi>([^<]+)</gs)].map(([, text]) => text);
  const linkOf = (body: string, rel: string) =>
    new RegExp(`href="([^"]+#timeline)" rel="${rel}"`).exec(body)?.[1]?.replaceAll('&amp;', '&');

  const firstPage = await admin.get(`${site.url}/admin/users/${userId}?kind=sign_ins`);
  expect(linkOf(firstPage.body, 'prev')).toBeUndefined();
  const secondPage = await admin.get(`${site.url}${linkOf(firstPage.body, 'next')}`);
  const shown = [...shownTexts(firstPage.body), ...shownTexts(secondPage.body)];
  const { items } = await readTimeline(`users/${userId}`, '?kind=sign_ins&limit=200');
  expect(shown).toEqual(items.map(({ text }) => text).slice(0, shown.length));
  expect(shownTexts(firstPage.body)).toHaveLength(25);
  const firstPageAgain = await admin.get(`${site.url}${linkOf(secondPage.body, 'prev')}`);
  expect(shownTexts(firstPageAgain.body)).toEqual(shownTexts(firstPage.body));
});
