/** Connect links with two processes: a link connects its user once, even if both processes get its callback. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { type Fleet, type StoreKind, startFleet } from '../../support/fleet.ts';
import { sandboxApp, signIn } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { JSON_BODY, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { sessionOf } from '../grants/storage-access.ts';
import { type Administrator, bearer, createAdministrator } from './service.ts';

const RETURN_URL = 'http://127.0.0.1:9/connected?from=link';
const NO_LONGER_WORKS = 'This link no longer works';

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  let fleet: Fleet;
  let admin: Administrator;
  let token: string;
  let agent: UserAgent;
  let userId: string;
  let webhookId: string;
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
    const webhook = { url: `${fleet.sandbox.platformUrl}/hook`, events: ['connection.created'] };
    webhookId = String((await admin.call('POST', '/webhooks', webhook)).json.id);
  });
  afterAll(() => fleet?.close());

  const requestLink = (changes: Record<string, unknown> = {}, relayToken = token): Promise<ReceivedResponse> =>
    sendRequest(`${fleet.member(1).url}/relay/connect-links`, {
      method: 'POST',
      headers: { ...bearer(relayToken), ...JSON_BODY },
      body: JSON.stringify({ userId, app: 'platform', ...changes }),
    });
  const createLink = async (changes: Record<string, unknown> = {}): Promise<{ id: string; url: string }> => {
    const response = await requestLink(changes);
    if (response.status !== 201) throw new Error(response.body);
    return JSON.parse(response.body);
  };
  /** Submits the page of a link, and the consent page if the provider shows one. Returns the last URL. */
  const submitConsent = async (browser: UserAgent, linkPage: Page) => {
    const nextPage = await browser.submit(linkPage, {}, { button: 'Connect' });
    const authorizationUrl = nextPage.visited.findLast((visited) => visited.includes('/authorize?')) ?? '';
    const isStopped = nextPage.status === 0;
    const lastPage = isStopped ? nextPage : await browser.submit(nextPage, {}, { button: 'Allow' });
    return { authorizationUrl, url: lastPage.url };
  };
  /** Follows a link up to the callback, whose URL it returns. */
  const followLink = async (url: string): Promise<string> => {
    stopsAtCallback = true;
    const callback = await submitConsent(agent, await agent.get(url));
    stopsAtCallback = false;
    return callback.url;
  };
  /** Sends the callback of the signed-in user to this process. */
  const openCallback = (process: number, callback: string) => {
    const { pathname, search } = new URL(callback);
    const headers = { accept: 'text/html', host: new URL(fleet.url).host, cookie: agent.cookies.header(fleet.url) };
    return sendRequest(`${fleet.member(process).url}${pathname}${search}`, { headers });
  };
  const signInSecondUser = async (): Promise<UserAgent> => {
    const browser = createUserAgent();
    await signIn(fleet, 'second@example.test', { agent: browser });
    return browser;
  };
  const readEntries = async (event: string, id: string) => {
    const { json } = await admin.call('GET', `/audit?event=${event}&target=${id}`);
    return json.items as { actor: { kind: string }; userId?: string }[];
  };
  const findListed = async (id: string) => {
    const { json } = await admin.call('GET', '/connect-links');
    return (json.items as { id: string; used: boolean }[]).find((link) => link.id === id);
  };

  test('R114 connects with the scopes of the link, which the webhook and the audit trail name', async (context) => {
    skipIfMissing(context, missing);
    const { id, url } = await createLink({ scopes: ['platform_read_only'], returnUrl: RETURN_URL });
    const secret = url.slice(url.lastIndexOf('/') + 1).slice(16, 59);
    const browser = createUserAgent({ stopAt: (target) => target === RETURN_URL });
    // The user is not signed in, so the link leads to the sign-in and back.
    const { page } = await signIn(fleet, 'user@example.test', { agent: browser, path: new URL(url).pathname });
    expect([page.status, page.url]).toEqual([200, url]);
    expect(page.body).toContain('What you will be asked to allow');
    for await (const records of fleet.storage.store.walk()) {
      for (const { key, value } of records) expect(key + value).not.toContain(secret);
    }

    const { authorizationUrl, url: lastUrl } = await submitConsent(browser, page);
    expect(new URL(authorizationUrl).searchParams.get('scope')).toBe('openid platform_read_only');
    expect(lastUrl).toBe(RETURN_URL);
    expect((await fleet.storage.readGrant(userId)).requestedScopes).toEqual(['openid', 'platform_read_only']);

    await until(async () => (await readEntries('connect_link.used', id)).length === 1);
    expect(await readEntries('connect_link.created', id)).toMatchObject([{ actor: { kind: 'relay_token' }, userId }]);
    await until(async () => {
      for await (const records of fleet.storage.store.walk()) {
        if (records.some(({ key, value }) => key.startsWith('webhook-message:') && value.includes(id))) return true;
      }
      return false;
    });
    expect((await admin.call('GET', `/webhooks/${webhookId}/messages`)).status).toBe(200);
    expect(await findListed(id)).toMatchObject({ used: true });

    const secondVisit = await browser.get(url);
    expect([secondVisit.status, secondVisit.body]).toEqual([404, expect.stringContaining(NO_LONGER_WORKS)]);
    expect(fleet.output()).not.toContain(secret);
  });

  test('R114 refuses another user with the reason, and the link stays open', async (context) => {
    skipIfMissing(context, missing);
    const { id, url } = await createLink();
    const otherBrowser = await signInSecondUser();
    const { userId: otherId, csrfToken } = await sessionOf(fleet, otherBrowser);
    const grantBefore = await fleet.storage.readGrant(otherId);

    const page = await otherBrowser.get(url);
    expect([page.status, page.body]).toEqual([403, expect.stringContaining('This link is for another user')]);
    expect(page.forms.flatMap(({ buttons }) => buttons.map(({ text }) => text))).toContain('Sign out');
    const body = new URLSearchParams({ _csrf: csrfToken });
    const response = await otherBrowser.request(url, { method: 'POST', body });
    expect(response.status).toBe(403);

    expect(await fleet.storage.readGrant(otherId)).toEqual(grantBefore);
    expect(await findListed(id)).toMatchObject({ used: false });
  });

  test('R114 accepts one of two concurrent callbacks of a link at two processes', async (context) => {
    skipIfMissing(context, missing);
    const { id, url } = await createLink({ returnUrl: RETURN_URL });
    const callbacks = [await followLink(url), await followLink(url)];
    const responses = await Promise.all(callbacks.map((callback, process) => openCallback(process, callback)));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([303, 404]);
    expect(responses.find(({ status }) => status === 303)?.headers.location).toBe(RETURN_URL);
    expect(responses.find(({ status }) => status === 404)?.body).toContain(NO_LONGER_WORKS);
    await until(async () => (await readEntries('connect_link.used', id)).length > 0);
    expect(await readEntries('connect_link.used', id)).toHaveLength(1);
  });

  test('R114 a failed attempt and a kill before the callback leave the link open', async (context) => {
    skipIfMissing(context, missing);
    const { id, url } = await createLink();
    const callbackWithError = new URL(await followLink(url));
    callbackWithError.searchParams.delete('code');
    callbackWithError.searchParams.set('error', 'access_denied');
    expect(await openCallback(1, callbackWithError.href)).toMatchObject({ status: 403 });
    expect(await findListed(id)).toMatchObject({ used: false });

    const callback = await followLink(url);
    await fleet.member(0).kill();
    await fleet.member(0).start();
    expect(await openCallback(0, callback)).toMatchObject({ status: 303 });
    expect(await findListed(id)).toMatchObject({ used: true });
  });

  /**
   * Kills process 0 while it handles the callback, at the moment that `waitForMoment` waits for.
   * Returns whether the grant was stored.
   */
  const killDuringCallback = async (callback: string, waitForMoment: () => Promise<unknown>): Promise<boolean> => {
    const grantBefore = await fleet.storage.readGrant(userId);
    const interruptedCall = openCallback(0, callback).catch(() => undefined);
    await waitForMoment();
    await fleet.member(0).kill();
    await interruptedCall;
    await fleet.member(0).start();
    return (await fleet.storage.readGrant(userId)).accessToken !== grantBefore.accessToken;
  };
  const expectOtherUserRefused = async (url: string, status: number) => {
    const otherBrowser = await signInSecondUser();
    const { userId: otherId } = await sessionOf(fleet, otherBrowser);
    const grantBefore = await fleet.storage.readGrant(otherId);
    expect((await otherBrowser.get(url)).status).toBe(status);
    expect(await fleet.storage.readGrant(otherId)).toEqual(grantBefore);
  };

  test('R114 a kill before the token response arrives stores nothing, and the link still connects', async (context) => {
    skipIfMissing(context, missing);
    const { id, url } = await createLink({ returnUrl: RETURN_URL });
    const callback = await followLink(url);
    const heldResponse = fleet.tokenEndpoint.holdNext();
    expect(await killDuringCallback(callback, () => heldResponse.prepared)).toBe(false);
    heldResponse.release();
    expect(await findListed(id)).toMatchObject({ used: false });
    await expectOtherUserRefused(url, 403);

    const { accessToken } = await fleet.storage.readGrant(userId);
    expect(await openCallback(1, await followLink(url))).toMatchObject({ status: 303 });
    expect((await fleet.storage.readGrant(userId)).accessToken).not.toBe(accessToken);
    expect(await findListed(id)).toMatchObject({ used: true });
  });

  test('R114 a kill right after the link is used up keeps the connection, and the link cannot be used twice', async (context) => {
    skipIfMissing(context, missing);
    const { id, url } = await createLink();
    const callback = await followLink(url);
    const secondCallback = await followLink(url);
    // Without a pause, so that the kill comes as soon as possible.
    const waitUntilUsed = async () => {
      while (await fleet.storage.store.get(keys.connectTicket(userId, id)));
    };
    expect(await killDuringCallback(callback, waitUntilUsed)).toBe(true);

    const storedGrant = await fleet.storage.readGrant(userId);
    expect((await openCallback(1, secondCallback)).status).toBe(404);
    expect((await agent.get(url)).status).toBe(404);
    await expectOtherUserRefused(url, 404);
    expect(await fleet.storage.readGrant(userId)).toEqual(storedGrant);
  });

  test('R114 a kill at any moment of the callback stores the connection and uses up the link, or does neither', async (context) => {
    skipIfMissing(context, missing);
    for (const milliseconds of [0, 4, 8, 16, 32]) {
      const { id, url } = await createLink();
      const callback = await followLink(url);
      const heldResponse = fleet.tokenEndpoint.holdNext();
      const isStored = await killDuringCallback(callback, async () => {
        await heldResponse.prepared;
        heldResponse.release();
        await sleep(milliseconds);
      });
      expect([milliseconds, await findListed(id)]).toMatchObject([milliseconds, { used: isStored }]);
      expect((await agent.get(url)).status).toBe(isStored ? 404 : 200);
    }
  });

  test('R114 an expired link connects nothing, even for a user who is at the provider', async (context) => {
    skipIfMissing(context, missing);
    const { id, url } = await createLink();
    const callback = await followLink(url);
    const grantBefore = await fleet.storage.readGrant(userId);
    const ticket = keys.connectTicket(userId, id);
    await fleet.storage.store.write([{ put: ticket, value: '', lifetimeSeconds: 1 }]);
    await until(async () => !(await fleet.storage.store.get(ticket)));
    const response = await openCallback(1, callback);
    expect([response.status, response.body]).toEqual([404, expect.stringContaining(NO_LONGER_WORKS)]);
    expect((await agent.get(url)).status).toBe(404);
    expect(await fleet.storage.readGrant(userId)).toEqual(grantBefore);
  });

  test('R114 a revoked link connects nothing, even for a user who is at the provider', async (context) => {
    skipIfMissing(context, missing);
    const { id, url } = await createLink();
    const callback = await followLink(url);
    const grantBefore = await fleet.storage.readGrant(userId);
    expect((await admin.call('DELETE', `/connect-links/${id}`)).status).toBe(204);
    expect((await openCallback(0, callback)).status).toBe(404);
    expect(await fleet.storage.readGrant(userId)).toEqual(grantBefore);
    expect((await agent.get(url)).status).toBe(404);
    expect((await agent.get(`${url.slice(0, -1)}x`)).status).toBe(404);
    expect(await readEntries('connect_link.revoked', id)).toHaveLength(1);
    expect(await findListed(id)).toBeUndefined();
  });

  test('R114 disabling or deleting a user ends their links for good', async (context) => {
    skipIfMissing(context, missing);
    const { userId: secondUserId } = await sessionOf(fleet, await signInSecondUser());
    for (const [method, path] of [
      ['POST', `/users/${secondUserId}/disable`],
      ['DELETE', `/users/${secondUserId}`],
    ] as const) {
      const { id, url } = await createLink({ userId: secondUserId });
      const { id: linkOfFirstUser } = await createLink();
      expect((await (await signInSecondUser()).get(url)).status).toBe(200);

      expect((await admin.call(method, path)).status).toBe(200);

      expect(await findListed(id)).toBeUndefined();
      expect(await findListed(linkOfFirstUser)).toMatchObject({ used: false });
      await admin.call('POST', `/users/${secondUserId}/enable`);
      expect((await (await signInSecondUser()).get(url)).status).toBe(404);
    }
  });

  test('R114 disabling or deleting a user also ends links that are being created at the same time', async (context) => {
    skipIfMissing(context, missing);
    const { userId: secondUserId } = await sessionOf(fleet, await signInSecondUser());
    for (const [method, path] of [
      ['POST', `/users/${secondUserId}/disable`],
      ['DELETE', `/users/${secondUserId}`],
    ] as const) {
      let isRefused = false;
      const urls: string[] = [];
      const createLinksUntilRefused = async () => {
        while (!isRefused) {
          const { status, body } = await requestLink({ userId: secondUserId });
          if (status === 201) urls.push(JSON.parse(body).url);
          else isRefused = true;
        }
      };
      const creations = Promise.all(Array.from({ length: 16 }, createLinksUntilRefused));
      await until(() => urls.length >= 16);

      expect((await admin.call(method, path)).status).toBe(200);

      await creations;
      await admin.call('POST', `/users/${secondUserId}/enable`);
      const otherBrowser = await signInSecondUser();
      const statuses = await Promise.all(urls.map(async (url) => (await otherBrowser.get(url)).status));
      expect(statuses.filter((status) => status !== 404)).toEqual([]);
    }
  });

  test('R114 revoking the relay token ends its links, even for a user who is at the provider', async (context) => {
    skipIfMissing(context, missing);
    const { id: tokenId, token: revokedToken } = await admin.createRelayToken({
      scopes: ['connect_links:create'],
      assertUser: true,
    });
    const { id, url } = JSON.parse((await requestLink({}, revokedToken)).body);
    const { id: linkOfOtherToken } = await createLink();
    const callback = await followLink(url);
    const grantBefore = await fleet.storage.readGrant(userId);
    expect((await admin.call('DELETE', `/relay-tokens/${tokenId}`)).status).toBe(204);

    expect(await findListed(id)).toBeUndefined();
    expect(await findListed(linkOfOtherToken)).toMatchObject({ used: false });
    expect((await openCallback(1, callback)).status).toBe(404);
    expect((await agent.get(url)).status).toBe(404);
    expect(await fleet.storage.readGrant(userId)).toEqual(grantBefore);
  });

  test('R138 of 1,000 links of one relay token for a user, ten stay open, and other links and entries of the user stay', async (context) => {
    skipIfMissing(context, missing);
    const floodingToken = await admin.createRelayToken({ assertUser: true });
    const otherToken = await admin.createRelayToken({ assertUser: true });
    const { url: urlOfOtherToken } = JSON.parse((await requestLink({}, otherToken.token)).body);
    const readEntryIds = async () => {
      const { json } = await admin.call('GET', `/audit?actor=${userId}&limit=100`);
      return (json.items as { id: string }[]).map(({ id }) => id);
    };
    const entryIdsBefore = await readEntryIds();
    expect(entryIdsBefore).not.toEqual([]);

    const urls: string[] = [];
    const startedAt = Date.now();
    while (urls.length < 1_000) {
      const responses = await Promise.all(Array.from({ length: 20 }, () => requestLink({}, floodingToken.token)));
      urls.push(...responses.map(({ body }) => JSON.parse(body).url));
    }
    const minutes = Math.ceil((Date.now() - startedAt) / 60_000) + 1;

    expect((await agent.get(urls[0] ?? '')).body).toContain(NO_LONGER_WORKS);
    expect((await agent.get(urlOfOtherToken)).status).toBe(200);
    const links = (await admin.call('GET', '/connect-links?limit=100')).json.items as { relayToken: { id: string } }[];
    expect(links.filter(({ relayToken }) => relayToken.id === floodingToken.id)).toHaveLength(10);

    const query = `event=connect_link.created&actor=${floodingToken.id}&limit=100`;
    const { json: entriesOfToken } = await admin.call('GET', `/audit?${query}`);
    expect((entriesOfToken.items as unknown[]).length).toBeLessThanOrEqual(2 * minutes);
    expect(await readEntryIds()).toEqual(expect.arrayContaining(entryIdsBefore));
  });

  test('R114 deleting the app ends its links for good, even if it is registered again', async (context) => {
    skipIfMissing(context, missing);
    const app = { ...sandboxApp(fleet, 'second'), clientSecret: 'not used here' };
    expect((await admin.call('POST', '/connected-apps', app)).status).toBe(201);
    const { token: forBothApps } = await admin.createRelayToken({ apps: ['platform', 'second'], assertUser: true });
    await until(async () => (await requestLink({ app: 'second' }, forBothApps)).status === 201);
    const { url } = JSON.parse((await requestLink({ app: 'second' }, forBothApps)).body);
    const { url: otherLink } = await createLink();
    expect((await agent.get(url)).status).toBe(200);
    expect((await admin.call('DELETE', '/connected-apps/second')).status).toBeLessThan(300);
    expect((await agent.get(url)).status).toBe(404);
    expect((await admin.call('POST', '/connected-apps', app)).status).toBe(201);
    expect((await agent.get(url)).status).toBe(404);
    expect((await agent.get(otherLink)).status).toBe(200);
  });
});
