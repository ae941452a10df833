/** Connect links with two processes: a link connects its user once, even if both processes get its callback. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { type Fleet, type StoreKind, startFleet } from '../../support/fleet.ts';
import { sandboxApp, signIn } from '../../support/gatehouse.ts';
import { skipWithout } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { JSON_BODY, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { sessionOf } from '../grants/storage-access.ts';
import { type Administrator, bearer, createAdministrator } from './service.ts';

const RETURN_URL = 'http://127.0.0.1:9/connected?from=link';
const GONE = 'This link no longer works';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  let fleet: Fleet;
  let admin: Administrator;
  let token: string;
  let agent: UserAgent;
  let userId: string;
  let webhook: string;
  /** The browser always stops before the return URL, and if this is set, before the callback. */
  let stopsAtCallback = false;
  const missing = kind === 'Redis' ? missingRedis : undefined;

  beforeAll(async () => {
    if (missing) return;
    fleet = await startFleet({
      kind,
      processes: 2,
      apps: (at) => [sandboxApp(at, 'platform', { returnUrls: [RETURN_URL] })],
    });
    admin = await createAdministrator(fleet, fleet.storage);
    const policy = { scopes: ['connect_links:create', 'connections:read'], assertUser: true };
    ({ token } = await admin.createRelayToken(policy));
    const stopAt = (url: string) => url === RETURN_URL || (stopsAtCallback && url.includes('/oauth/callback/'));
    agent = createUserAgent({ stopAt });
    await signIn(fleet, 'user@example.test', { agent });
    ({ userId } = await sessionOf(fleet, agent));
    const hook = { url: `${fleet.sandbox.platformUrl}/hook`, events: ['connection.created'] };
    webhook = String((await admin.call('POST', '/webhooks', hook)).json.id);
  });
  afterAll(() => fleet?.close());

  const create = (changes: Record<string, unknown> = {}, relayToken = token): Promise<ReceivedResponse> =>
    sendRequest(`${fleet.member(1).url}/relay/connect-links`, {
      method: 'POST',
      headers: { ...bearer(relayToken), ...JSON_BODY },
      body: JSON.stringify({ user: userId, app: 'platform', ...changes }),
    });
  const makeLink = async (changes: Record<string, unknown> = {}): Promise<{ id: string; url: string }> => {
    const response = await create(changes);
    if (response.status !== 201) throw new Error(response.body);
    return JSON.parse(response.body);
  };
  /** Follows a link up to the provider’s redirect back, whose URL it returns. */
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
    return sendRequest(`${fleet.member(at).url}${pathname}${search}`, { headers });
  };
  const entries = async (event: string, id: string) => {
    const { json } = await admin.call('GET', `/audit?event=${event}&target=${id}`);
    return json.items as { actor: { kind: string }; userId?: string }[];
  };
  const listed = async (id: string) =>
    ((await admin.call('GET', '/connect-links')).json.items as { id: string; used: boolean }[]).find(
      (link) => link.id === id,
    );

  test('R114 connects with the scopes of the link, which the webhook and the audit trail name', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink({ scopes: ['platform_read_only'], returnUrl: RETURN_URL });
    const secret = url.slice(url.lastIndexOf('/') + 1).slice(16, 59);
    const browser = createUserAgent({ stopAt: (target) => target === RETURN_URL });
    // Not signed in: the link leads to the sign-in and back.
    const { page } = await signIn(fleet, 'user@example.test', { agent: browser, path: new URL(url).pathname });
    expect([page.status, page.url]).toEqual([200, url]);
    expect(page.body).toContain('What you will be asked to allow');
    for await (const records of fleet.storage.store.walk())
      for (const { key, value } of records) expect(key + value).not.toContain(secret);
    const consent = await browser.submit(page, {}, { button: 'Connect' });
    const visited = [...page.visited, ...consent.visited];
    const authorization = new URL(visited.findLast((address) => address.includes('/authorize?')) ?? '');
    expect(authorization.searchParams.get('scope')).toBe('openid platform_read_only');
    const end = consent.status === 0 ? consent : await browser.submit(consent, {}, { button: 'Allow' });
    expect(end.url).toBe(RETURN_URL);
    expect((await fleet.storage.readGrant(userId)).requestedScopes).toEqual(['openid', 'platform_read_only']);

    await until(async () => (await entries('connect_link.used', id)).length === 1);
    expect(await entries('connect_link.created', id)).toMatchObject([{ actor: { kind: 'relay_token' }, userId }]);
    await until(async () => {
      for await (const records of fleet.storage.store.walk())
        if (records.some(({ key, value }) => key.startsWith('webhook-message:') && value.includes(id))) return true;
      return false;
    });
    expect((await admin.call('GET', `/webhooks/${webhook}/messages`)).status).toBe(200);
    expect(await listed(id)).toMatchObject({ used: true });
    const secondVisit = await browser.get(url);
    expect([secondVisit.status, secondVisit.body]).toEqual([404, expect.stringContaining(GONE)]);
    expect(fleet.output()).not.toContain(secret);
  });

  test('R114 refuses another user with the reason, and the link stays open', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink();
    const other = createUserAgent();
    await signIn(fleet, 'second@example.test', { agent: other });
    const { userId: otherId } = await sessionOf(fleet, other);
    const before = await fleet.storage.readGrant(otherId);
    const page = await other.get(url);
    expect([page.status, page.body]).toEqual([403, expect.stringContaining('This link is for another user')]);
    expect(page.forms.flatMap(({ buttons }) => buttons.map(({ text }) => text))).toContain('Sign out');
    const { csrfToken } = await sessionOf(fleet, other);
    const posted = await other.request(url, { method: 'POST', body: new URLSearchParams({ _csrf: csrfToken }) });
    expect(posted.status).toBe(403);
    expect(await fleet.storage.readGrant(otherId)).toEqual(before);
    expect(await listed(id)).toMatchObject({ used: false });
  });

  test('R114 accepts one of two concurrent callbacks of a link at two processes', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink({ returnUrl: RETURN_URL });
    const callbacks = [await callbackOf(url), await callbackOf(url)];
    const responses = await Promise.all(callbacks.map((callback, at) => openCallback(at, callback)));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([303, 404]);
    expect(responses.find(({ status }) => status === 303)?.headers.location).toBe(RETURN_URL);
    expect(responses.find(({ status }) => status === 404)?.body).toContain(GONE);
    await until(async () => (await entries('connect_link.used', id)).length > 0);
    expect(await entries('connect_link.used', id)).toHaveLength(1);
  });

  test('R114 a failed attempt and a kill before the callback leave the link open', async (context) => {
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

  /** Kills process 0 while it completes the link, once `stops` resolves. Returns whether the grant was stored. */
  const killedWhile = async (callback: string, stops: () => Promise<unknown>): Promise<boolean> => {
    const before = await fleet.storage.readGrant(userId);
    const interrupted = openCallback(0, callback).catch(() => undefined);
    await stops();
    await fleet.member(0).kill();
    await interrupted;
    await fleet.member(0).start();
    return (await fleet.storage.readGrant(userId)).accessToken !== before.accessToken;
  };
  const refusesOtherUser = async (url: string, status: number) => {
    const other = createUserAgent();
    await signIn(fleet, 'second@example.test', { agent: other });
    const { userId: otherId } = await sessionOf(fleet, other);
    const before = await fleet.storage.readGrant(otherId);
    expect((await other.get(url)).status).toBe(status);
    expect(await fleet.storage.readGrant(otherId)).toEqual(before);
  };

  test('R114 a kill before the token response arrives stores nothing, and the link still connects', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink({ returnUrl: RETURN_URL });
    const callback = await callbackOf(url);
    const held = fleet.tokenEndpoint.holdNext();
    expect(await killedWhile(callback, () => held.prepared)).toBe(false);
    held.release();
    expect(await listed(id)).toMatchObject({ used: false });
    await refusesOtherUser(url, 403);
    const { accessToken } = await fleet.storage.readGrant(userId);
    expect(await openCallback(1, await callbackOf(url))).toMatchObject({ status: 303 });
    expect((await fleet.storage.readGrant(userId)).accessToken).not.toBe(accessToken);
    expect(await listed(id)).toMatchObject({ used: true });
  });

  test('R114 a kill right after the link is used up keeps the connection, and the link cannot be used twice', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink();
    const [callback, second] = [await callbackOf(url), await callbackOf(url)];
    const usedUp = async () => {
      while (await fleet.storage.store.get(keys.connectTicket(userId, id)));
    };
    expect(await killedWhile(callback, usedUp)).toBe(true);
    const stored = await fleet.storage.readGrant(userId);
    expect((await openCallback(1, second)).status).toBe(404);
    expect((await agent.get(url)).status).toBe(404);
    await refusesOtherUser(url, 404);
    expect(await fleet.storage.readGrant(userId)).toEqual(stored);
  });

  test('R114 a kill at any moment of the callback stores the connection and uses up the link, or does neither', async (context) => {
    skipWithout(context, missing);
    for (const milliseconds of [0, 4, 8, 16, 32]) {
      const { id, url } = await makeLink();
      const callback = await callbackOf(url);
      const held = fleet.tokenEndpoint.holdNext();
      const stops = async () => {
        await held.prepared;
        held.release();
        await sleep(milliseconds);
      };
      const isStored = await killedWhile(callback, stops);
      expect([milliseconds, await listed(id)]).toMatchObject([milliseconds, { used: isStored }]);
      expect((await agent.get(url)).status).toBe(isStored ? 404 : 200);
    }
  });

  test('R114 an expired link connects nothing, even for a user who is at the provider', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink();
    const callback = await callbackOf(url);
    const before = await fleet.storage.readGrant(userId);
    const ticket = keys.connectTicket(userId, id);
    await fleet.storage.store.write([{ put: ticket, value: '', lifetimeSeconds: 1 }]);
    await until(async () => !(await fleet.storage.store.get(ticket)));
    const response = await openCallback(1, callback);
    expect([response.status, response.body]).toEqual([404, expect.stringContaining(GONE)]);
    expect((await agent.get(url)).status).toBe(404);
    expect(await fleet.storage.readGrant(userId)).toEqual(before);
  });

  test('R114 a revoked link connects nothing, even for a user who is at the provider', async (context) => {
    skipWithout(context, missing);
    const { id, url } = await makeLink();
    const callback = await callbackOf(url);
    const before = await fleet.storage.readGrant(userId);
    expect((await admin.call('DELETE', `/connect-links/${id}`)).status).toBe(204);
    expect((await openCallback(0, callback)).status).toBe(404);
    expect(await fleet.storage.readGrant(userId)).toEqual(before);
    expect((await agent.get(url)).status).toBe(404);
    expect((await agent.get(`${url.slice(0, -1)}x`)).status).toBe(404);
    expect(await entries('connect_link.revoked', id)).toHaveLength(1);
    expect(await listed(id)).toBeUndefined();
  });

  test('R114 disabling or deleting a user ends their links for good', async (context) => {
    skipWithout(context, missing);
    const signedIn = async () => {
      const other = createUserAgent();
      await signIn(fleet, 'second@example.test', { agent: other });
      return other;
    };
    const { userId: user } = await sessionOf(fleet, await signedIn());
    for (const [method, path] of [
      ['POST', `/users/${user}/disable`],
      ['DELETE', `/users/${user}`],
    ] as const) {
      const { id, url } = await makeLink({ user });
      const { id: otherLink } = await makeLink();
      expect((await (await signedIn()).get(url)).status).toBe(200);
      expect((await admin.call(method, path)).status).toBe(200);
      expect([await listed(id), await listed(otherLink)]).toEqual([
        undefined,
        expect.objectContaining({ used: false }),
      ]);
      await admin.call('POST', `/users/${user}/enable`);
      expect((await (await signedIn()).get(url)).status).toBe(404);
    }
  });

  test('R114 disabling or deleting a user also ends links that are being created at the same time', async (context) => {
    skipWithout(context, missing);
    const signedIn = async () => {
      const other = createUserAgent();
      await signIn(fleet, 'second@example.test', { agent: other });
      return other;
    };
    const { userId: user } = await sessionOf(fleet, await signedIn());
    for (const [method, path] of [
      ['POST', `/users/${user}/disable`],
      ['DELETE', `/users/${user}`],
    ] as const) {
      let refused = false;
      const urls: string[] = [];
      const keepCreating = async () => {
        while (!refused) {
          const { status, body } = await create({ user });
          if (status === 201) urls.push(JSON.parse(body).url);
          else refused = true;
        }
      };
      const creating = Promise.all(Array.from({ length: 16 }, keepCreating));
      await until(() => urls.length >= 16);
      expect((await admin.call(method, path)).status).toBe(200);
      await creating;
      await admin.call('POST', `/users/${user}/enable`);
      const other = await signedIn();
      const statuses = await Promise.all(urls.map(async (url) => (await other.get(url)).status));
      expect(statuses.filter((status) => status !== 404)).toEqual([]);
    }
  });

  test('R114 revoking the relay token ends its links, even for a user who is at the provider', async (context) => {
    skipWithout(context, missing);
    const { id: tokenId, token: revoked } = await admin.createRelayToken({
      scopes: ['connect_links:create'],
      assertUser: true,
    });
    const { id, url } = JSON.parse((await create({}, revoked)).body);
    const { id: otherLink } = await makeLink();
    const callback = await callbackOf(url);
    const before = await fleet.storage.readGrant(userId);
    expect((await admin.call('DELETE', `/relay-tokens/${tokenId}`)).status).toBe(204);
    expect([await listed(id), await listed(otherLink)]).toEqual([undefined, expect.objectContaining({ used: false })]);
    expect((await openCallback(1, callback)).status).toBe(404);
    expect((await agent.get(url)).status).toBe(404);
    expect(await fleet.storage.readGrant(userId)).toEqual(before);
  });

  test('R138 1,000 links of one relay token for a user leave ten open, the link of another token and the entries of the user', async (context) => {
    skipWithout(context, missing);
    const [flooding, other] = [
      await admin.createRelayToken({ assertUser: true }),
      await admin.createRelayToken({ assertUser: true }),
    ];
    const { url: urlBeside } = JSON.parse((await create({}, other.token)).body);
    const entriesOfUser = async () =>
      ((await admin.call('GET', `/audit?actor=${userId}&limit=100`)).json.items as { id: string }[]).map(
        ({ id }) => id,
      );
    const storedEntries = await entriesOfUser();
    expect(storedEntries).not.toEqual([]);
    const urls: string[] = [];
    const startedAt = Date.now();
    for (let n = 0; n < 1_000; n += 20) {
      const responses = await Promise.all(Array.from({ length: 20 }, () => create({}, flooding.token)));
      urls.push(...responses.map(({ body }) => JSON.parse(body).url));
    }
    const minutes = Math.ceil((Date.now() - startedAt) / 60_000) + 1;
    expect((await agent.get(urls[0] ?? '')).body).toContain(GONE);
    expect((await agent.get(urlBeside)).status).toBe(200);
    const links = (await admin.call('GET', '/connect-links?limit=100')).json.items as { relayToken: { id: string } }[];
    expect(links.filter(({ relayToken }) => relayToken.id === flooding.id)).toHaveLength(10);
    const created = (await admin.call('GET', `/audit?event=connect_link.created&actor=${flooding.id}&limit=100`)).json;
    expect((created.items as unknown[]).length).toBeLessThanOrEqual(2 * minutes);
    expect(await entriesOfUser()).toEqual(expect.arrayContaining(storedEntries));
  });

  test('R114 deleting the app ends its links for good, even if it is registered again', async (context) => {
    skipWithout(context, missing);
    const app = { ...sandboxApp(fleet, 'second'), clientSecret: 'not used here' };
    expect((await admin.call('POST', '/connected-apps', app)).status).toBe(201);
    const { token: forBothApps } = await admin.createRelayToken({ apps: ['platform', 'second'], assertUser: true });
    await until(async () => (await create({ app: 'second' }, forBothApps)).status === 201);
    const { url } = JSON.parse((await create({ app: 'second' }, forBothApps)).body);
    const { url: otherLink } = await makeLink();
    expect((await agent.get(url)).status).toBe(200);
    expect((await admin.call('DELETE', '/connected-apps/second')).status).toBeLessThan(300);
    expect((await agent.get(url)).status).toBe(404);
    expect((await admin.call('POST', '/connected-apps', app)).status).toBe(201);
    expect((await agent.get(url)).status).toBe(404);
    expect((await agent.get(otherLink)).status).toBe(200);
  });
});
