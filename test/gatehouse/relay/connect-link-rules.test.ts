/** Connect links in one process: which calls may create them, and how long they are valid. */
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { openSharedStorage, type SharedStorage } from '../../support/fleet.ts';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { JSON_BODY, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { sessionOf } from '../grants/storage-access.ts';
import { type Administrator, bearer, createAdministrator } from './service.ts';

const RETURN_URL = 'https://service.test/connected';

let site: TestSite;
let storage: SharedStorage;
let admin: Administrator;
let agent: UserAgent;
let userId: string;
let token: string;
beforeAll(async () => {
  const env = { SESSION_IDLE_SECONDS: '7200' };
  site = await startSite({ env, app: { returnUrls: [RETURN_URL] }, sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openSharedStorage(site.env);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site));
  ({ userId } = await sessionOf(site, agent));
  ({ token } = await admin.createRelayToken({ scopes: ['connect_links:create'], assertUser: true }));
});
afterAll(async () => {
  await storage?.store.close();
  await site?.close();
});

/** The request of a service for a link for the signed-in user. */
const requestLink = (changes: Record<string, unknown> = {}, relayToken = token): Promise<ReceivedResponse> =>
  sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...bearer(relayToken), ...JSON_BODY },
    body: JSON.stringify({ userId, app: 'platform', ...changes }),
  });

test('R114 creates links only as the policy of the relay token, the app’s scopes and its return URLs allow', async () => {
  const refusedRequests = [
    [{ app: 'unknown' }, 403],
    [{ userId: 'uAAAAAAAAAAAAAAAAAAAAAA' }, 404],
    [{ userId: undefined }, 400],
    [{ scopes: ['admin'] }, 400],
    [{ scopes: [] }, 400],
    [{ returnUrl: 'https://elsewhere.test/' }, 400],
    [{ returnUrl: '/connections' }, 400],
  ] as const;
  for (const [request, status] of refusedRequests) {
    expect([request, (await requestLink(request)).status]).toEqual([request, status]);
  }

  const detailOf = ({ body }: ReceivedResponse): unknown => JSON.parse(body).detail;
  expect(detailOf(await requestLink({ userId: undefined }))).toBe('Name the user, or send Gatehouse-User-Assertion.');
  expect(detailOf(await requestLink({ scopes: ['admin'] }))).toBe(
    'Choose from the scopes that are registered for this app.',
  );
  expect(detailOf(await requestLink({ returnUrl: '/' }))).toBe(
    'Send one of the return URLs of the app as "returnUrl".',
  );
});

test('R114 refuses a link for a deleted app, and by a relay token without the scope or without assertUser', async () => {
  const secondApp = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, signIn: undefined });
  expect((await admin.call('POST', '/connected-apps', secondApp)).status).toBe(201);
  const policy = { scopes: ['connect_links:create'], assertUser: true, apps: ['second'] };
  const { token: tokenOfSecond } = await admin.createRelayToken(policy);
  expect((await admin.call('DELETE', '/connected-apps/second')).status).toBe(204);
  const response = await requestLink({ app: 'second' }, tokenOfSecond);
  expect([response.status, JSON.parse(response.body).detail]).toEqual([404, 'There is no connected app with this id.']);

  const { token: withoutScope } = await admin.createRelayToken({ scopes: ['connections:read'], assertUser: true });
  expect((await requestLink({}, withoutScope)).status).toBe(403);
  const { token: withoutAssertUser } = await admin.createRelayToken({ scopes: ['connect_links:create'] });
  expect((await requestLink({}, withoutAssertUser)).status).toBe(403);
});

test('R114 a link that was created while its relay token was being revoked is not valid', async () => {
  const { id, token: revoked } = await admin.createRelayToken({ scopes: ['connect_links:create'], assertUser: true });
  const { url } = JSON.parse((await requestLink({}, revoked)).body);
  expect((await agent.get(url)).status).toBe(200);
  // Deletes only the relay token, as if another process had listed its links before this one was created.
  await storage.store.write([{ delete: keys.relayToken(id) }]);
  expect((await agent.get(url)).status).toBe(404);
});

test('R114 passes hints in the URL of a link to the provider, and returns the browser to the service', async () => {
  const browser = createUserAgent({ stopAt: (url) => url.startsWith('https://service.test/') });
  await signIn(site, 'user@example.test', { agent: browser });
  const { url } = JSON.parse((await requestLink({ returnUrl: RETURN_URL })).body);
  // The provider shows no consent page, since the user consented when they signed in.
  const lastPage = await browser.submit(await browser.get(`${url}?ui_locales=de`), {}, { button: 'Connect' });
  const authorizationUrl = new URL(lastPage.visited.find((visited) => visited.includes('/authorize?')) ?? '');
  expect(authorizationUrl.searchParams.get('ui_locales')).toBe('de');
  expect(lastPage.url).toBe(RETURN_URL);
});

test('R114 adds openid to the scopes of a link, and audits its creation and the use of the relay token', async () => {
  const { id: relayTokenId, token: auditedToken } = await admin.createRelayToken({
    scopes: ['connect_links:create'],
    assertUser: true,
  });
  const { id } = JSON.parse((await requestLink({ scopes: ['email'] }, auditedToken)).body);
  const readEntries = async (event: string) =>
    (await admin.call('GET', `/audit?event=${event}&actor=${relayTokenId}`)).json.items;
  await expect
    .poll(() => readEntries('connect_link.created'))
    .toMatchObject([
      {
        actor: { kind: 'relay_token', id: relayTokenId },
        target: { kind: 'connect_link', id },
        userId,
        facts: { app: 'platform', scopes: ['openid', 'email'] },
      },
    ]);
  await expect
    .poll(() => readEntries('relay.used'))
    .toMatchObject([{ outcome: 'succeeded', facts: { scope: 'connect_links:create' } }]);
});

test('R114 refuses a link with a scope that its app no longer registers', async () => {
  const file = site.env.CONNECTED_APPS_FILE ?? '';
  const originalFile = readFileSync(file, 'utf8');
  const [app] = JSON.parse(originalFile) as { scopes: string[] }[];
  const { url } = JSON.parse((await requestLink({ scopes: ['openid', 'email'] })).body);
  const page = await agent.get(url);
  expect(page.status).toBe(200);

  writeFileSync(file, JSON.stringify([{ ...app, scopes: app?.scopes.filter((scope) => scope !== 'email') }]));
  await site.restart();
  const refused = await agent.submit(page, {}, { button: 'Connect' });
  expect([refused.status, refused.body]).toEqual([404, expect.stringContaining('The app has changed since this link')]);

  writeFileSync(file, originalFile);
  await site.restart();
  expect((await agent.submit(page, {}, { button: 'Connect' })).status).toBe(200);
});

/** Signs a user in, follows a new link, and stops before the callback, whose URL is returned with the link. */
const stopAtCallback = async () => {
  let isAtLink = false;
  const browser = createUserAgent({ stopAt: (url) => isAtLink && url.includes('/oauth/callback/') });
  await signIn(site, 'user@example.test', { agent: browser });
  const { id, url } = JSON.parse((await requestLink()).body) as { id: string; url: string };
  isAtLink = true;
  const { url: callback } = await submitConsent(browser, await browser.get(url));
  isAtLink = false;
  return { browser, id, url, callback };
};
/** Submits the page of the link, and the consent page if the provider shows one. */
const submitConsent = async (browser: UserAgent, page: Page) => {
  const nextPage = await browser.submit(page, {}, { button: 'Connect' });
  const isAtCallback = nextPage.status === 0;
  return isAtCallback ? nextPage : browser.submit(nextPage, {}, { button: 'Allow' });
};
const countPendingRequests = async () => {
  let count = 0;
  for await (const records of storage.store.walk()) {
    count += records.filter(({ key }) => key.startsWith('pending-requests')).length;
  }
  return count;
};

test('R44 stores no secret of a link while its user is at the provider, and links back to it after a refusal', async () => {
  const { browser, id, url, callback } = await stopAtCallback();
  const signedOutBrowser = createUserAgent();
  await signedOutBrowser.get(url);
  expect(await countPendingRequests()).toBeGreaterThanOrEqual(2);
  for await (const records of storage.store.walk()) {
    for (const { key, value } of records) expect(key + value).not.toMatch(/gthl_[0-9A-Za-z]{12}/);
  }

  const callbackWithError = new URL(callback);
  callbackWithError.searchParams.delete('code');
  callbackWithError.searchParams.set('error', 'access_denied');
  const refusal = await browser.get(callbackWithError.href);
  expect([refusal.status, refusal.body]).toEqual([403, expect.stringContaining(url)]);

  // The pending sign-in of the other browser still leads to the page of the link, which is still unused.
  const path = new URL(url).pathname;
  const { page } = await signIn(site, 'user@example.test', { agent: signedOutBrowser, path });
  expect([page.status, page.url]).toEqual([200, url]);
  expect((await admin.call('GET', `/connect-links/${id}`)).json).toMatchObject({ used: false });
});

test('R114 a link expires after 30 minutes', async () => {
  const createLink = async (): Promise<{ id: string; url: string }> => JSON.parse((await requestLink()).body);
  const listIds = async () =>
    ((await admin.call('GET', '/connect-links')).json.items as { id: string }[]).map(({ id }) => id);
  const link = await createLink();
  advanceClock(1_790);
  const page = await agent.get(link.url);
  expect(page.status).toBe(200);

  advanceClock(11);
  const grantBefore = await storage.readGrant(userId);
  expect((await agent.submit(page, {}, { button: 'Connect' })).status).toBe(404);
  expect((await agent.get(link.url)).body).toContain('This link no longer works');
  expect(await storage.readGrant(userId)).toEqual(grantBefore);

  const newLink = await createLink();
  expect(await listIds()).toEqual([newLink.id]);
});
