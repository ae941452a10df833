/** Connect links: a service creates one for one user, who connects with it once, however many processes see the callback. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sessionOf } from '../grants/vault-desk.ts';
import { type Asked, ask, JSON_BODY } from '../support/ask.ts';
import { createUserAgent, type UserAgent } from '../support/browserless.ts';
import { type Fleet, type StoreKind, startFleet } from '../support/fleet.ts';
import { sandboxApp, signIn } from '../support/gatehouse.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { type Administrator, administratorOf, bearer } from './service.ts';

const RETURN_URL = 'http://127.0.0.1:9/connected?from=link';
const GONE = 'This link no longer works';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  let fleet: Fleet;
  let admin: Administrator;
  let token: string;
  let agent: UserAgent;
  let userId: string;
  let webhook: string;
  /** The browser stops before the callback, and before it leaves for the return URL. */
  let stopsAtCallback = false;
  const missing = kind === 'Redis' ? missingRedis : undefined;

  beforeAll(async () => {
    if (missing) return;
    fleet = await startFleet({
      kind,
      processes: 2,
      apps: (at) => [sandboxApp(at, 'platform', { returnUrls: [RETURN_URL] })],
    });
    admin = await administratorOf(fleet, fleet.vault);
    const policy = { scopes: ['connect_links:create', 'connections:read'], assertUser: true };
    ({ token } = await admin.makeToken(policy));
    const stopAt = (url: string) => url === RETURN_URL || (stopsAtCallback && url.includes('/oauth/callback/'));
    agent = createUserAgent({ stopAt });
    await signIn(fleet, 'user@example.test', { agent });
    ({ userId } = await sessionOf(fleet, agent));
    const hook = { url: `${fleet.sandbox.platformUrl}/hook`, events: ['connection.created'] };
    webhook = String((await admin.call('POST', '/webhooks', hook)).json.id);
  });
  afterAll(() => fleet?.close());

  const create = (wanted: Record<string, unknown> = {}, by = token): Promise<Asked> =>
    ask(`${fleet.member(1).url}/relay/connect-links`, {
      method: 'POST',
      headers: { ...bearer(by), ...JSON_BODY },
      body: JSON.stringify({ user: userId, app: 'platform', ...wanted }),
    });
  const makeLink = async (wanted: Record<string, unknown> = {}): Promise<{ id: string; url: string }> => {
    const answer = await create(wanted);
    if (answer.status !== 201) throw new Error(answer.body);
    return JSON.parse(answer.body);
  };
  /** As far as the provider’s redirect back. */
  const callbackOf = async (url: string): Promise<string> => {
    stopsAtCallback = true;
    const consent = await agent.submit(await agent.get(url), {}, { button: 'Connect' });
    const back = consent.status === 0 ? consent : await agent.submit(consent, {}, { button: 'Allow' });
    stopsAtCallback = false;
    return back.url;
  };
  const openCallback = (at: number, callback: string) => {
    const { pathname, search } = new URL(callback);
    const headers = { accept: 'text/html', host: new URL(fleet.url).host, cookie: agent.cookies.header(fleet.url) };
    return ask(`${fleet.member(at).url}${pathname}${search}`, { headers });
  };
  const entries = async (event: string, id: string) => {
    const { json } = await admin.call('GET', `/audit?event=${event}&whom=${id}`);
    return json.items as { actor: { kind: string }; userId?: string }[];
  };
  const listed = async (id: string) =>
    ((await admin.call('GET', '/connect-links')).json.items as { id: string; used: boolean }[]).find(
      (one) => one.id === id,
    );

  test('R114 a service asks, its user consents to these scopes, and the webhook and the trail name the link', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink({ scopes: ['platform_read_only'], returnUrl: RETURN_URL });
    const secret = url.slice(url.lastIndexOf('/') + 1).slice(16, 59);
    const browser = createUserAgent({ stopAt: (one) => one === RETURN_URL });
    // Not signed in: the link leads to the sign-in and back.
    const { page } = await signIn(fleet, 'user@example.test', { agent: browser, path: new URL(url).pathname });
    expect([page.status, page.url]).toEqual([200, url]);
    expect(page.body).toContain('What you will be asked to allow');
    for await (const records of fleet.vault.store.walk())
      for (const { key, value } of records.filter((one) => !one.key.startsWith('transactions')))
        expect(key + value).not.toContain(secret);
    const consent = await browser.submit(page, {}, { button: 'Connect' });
    const asked = new URL([...page.visited, ...consent.visited].findLast((one) => one.includes('/authorize?')) ?? '');
    expect(asked.searchParams.get('scope')).toBe('openid platform_read_only');
    const end = consent.status === 0 ? consent : await browser.submit(consent, {}, { button: 'Allow' });
    expect(end.url).toBe(RETURN_URL);
    expect((await fleet.vault.read(userId)).requestedScopes).toEqual(['openid', 'platform_read_only']);

    await until(async () => (await entries('connect_link.used', id)).length === 1);
    expect(await entries('connect_link.created', id)).toMatchObject([{ actor: { kind: 'relay_token' }, userId }]);
    await until(async () => {
      for await (const records of fleet.vault.store.walk())
        if (records.some(({ key, value }) => key.startsWith('webhook-message:') && value.includes(id))) return true;
      return false;
    });
    expect((await admin.call('GET', `/webhooks/${webhook}/messages`)).status).toBe(200);
    expect(await listed(id)).toMatchObject({ used: true });
    const again = await browser.get(url);
    expect([again.status, again.body]).toEqual([404, expect.stringContaining(GONE)]);
    expect(fleet.output()).not.toContain(secret);
  });

  test('R114 another user stores nothing, and is told why; the link stays open', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink();
    const other = createUserAgent();
    await signIn(fleet, 'second@example.test', { agent: other });
    const { userId: otherId } = await sessionOf(fleet, other);
    const before = await fleet.vault.read(otherId);
    const page = await other.get(url);
    expect([page.status, page.body]).toEqual([403, expect.stringContaining('This link is for another user')]);
    expect(page.forms.flatMap(({ buttons }) => buttons.map(({ text }) => text))).toContain('Sign out');
    const { csrfToken } = await sessionOf(fleet, other);
    const posted = await other.request(url, { method: 'POST', body: new URLSearchParams({ _csrf: csrfToken }) });
    expect(posted.status).toBe(403);
    expect(await fleet.vault.read(otherId)).toEqual(before);
    expect(await listed(id)).toMatchObject({ used: false });
  });

  test('R114 two callbacks of one link at two processes at once: one connects', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink({ returnUrl: RETURN_URL });
    const callbacks = [await callbackOf(url), await callbackOf(url)];
    const answers = await Promise.all(callbacks.map((callback, at) => openCallback(at, callback)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([303, 404]);
    expect(answers.find(({ status }) => status === 303)?.headers.location).toBe(RETURN_URL);
    expect(answers.find(({ status }) => status === 404)?.body).toContain(GONE);
    await until(async () => (await entries('connect_link.used', id)).length > 0);
    expect(await entries('connect_link.used', id)).toHaveLength(1);
  });

  test('R114 a failed attempt leaves the link open; a kill before the callback does too', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink();
    const denied = new URL(await callbackOf(url));
    denied.searchParams.delete('code');
    denied.searchParams.set('error', 'access_denied');
    expect(await openCallback(1, denied.href)).toMatchObject({ status: 403 });
    expect(await listed(id)).toMatchObject({ used: false });
    const callback = await callbackOf(url);
    await fleet.member(0).kill();
    await fleet.member(0).start();
    expect(await openCallback(0, callback)).toMatchObject({ status: 303 });
    expect(await listed(id)).toMatchObject({ used: true });
  });

  test('R114 a link that is revoked connects nothing, even for a user who is at the provider', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink();
    const callback = await callbackOf(url);
    const before = await fleet.vault.read(userId);
    expect((await admin.call('DELETE', `/connect-links/${id}`)).status).toBe(204);
    expect((await openCallback(0, callback)).status).toBe(404);
    expect(await fleet.vault.read(userId)).toEqual(before);
    expect((await agent.get(url)).status).toBe(404);
    expect((await agent.get(`${url.slice(0, -1)}x`)).status).toBe(404);
    expect(await entries('connect_link.revoked', id)).toHaveLength(1);
    expect(await listed(id)).toBeUndefined();
  });

  test('R114 the policy of the relay token, the app’s scopes and its return URLs decide', async (context) => {
    skipWithout(context, missing);
    const wrong = [
      [{ app: 'unknown' }, 403],
      [{ user: 'uAAAAAAAAAAAAAAAAAAAAAA' }, 404],
      [{ user: undefined }, 400],
      [{ scopes: ['admin'] }, 400],
      [{ scopes: [] }, 400],
      [{ returnUrl: 'https://elsewhere.test/' }, 400],
      [{ returnUrl: '/connections' }, 400],
    ] as const;
    for (const [wanted, status] of wrong) expect([wanted, (await create(wanted)).status]).toEqual([wanted, status]);
    const { token: reader } = await admin.makeToken({ scopes: ['connections:read'], assertUser: true });
    expect((await create({}, reader)).status).toBe(403);
    const { token: prover } = await admin.makeToken({ scopes: ['connect_links:create'] });
    expect((await create({}, prover)).status).toBe(403);
  });
});
