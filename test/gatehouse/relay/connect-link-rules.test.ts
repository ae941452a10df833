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
let vault: SharedStorage;
let admin: Administrator;
let agent: UserAgent;
let user: string;
let token: string;
beforeAll(async () => {
  const env = { SESSION_IDLE_SECONDS: '7200' };
  site = await startSite({ env, app: { returnUrls: [RETURN_URL] }, sandbox: { accessTokenSeconds: 3_600 } });
  vault = await openSharedStorage(site.env);
  admin = await createAdministrator(site, vault);
  ({ agent } = await signIn(site));
  ({ userId: user } = await sessionOf(site, agent));
  ({ token } = await admin.createRelayToken({ scopes: ['connect_links:create'], assertUser: true }));
});
afterAll(async () => {
  await vault?.store.close();
  await site?.close();
});

const create = (changes: Record<string, unknown> = {}, relayToken = token): Promise<ReceivedResponse> =>
  sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...bearer(relayToken), ...JSON_BODY },
    body: JSON.stringify({ user, app: 'platform', ...changes }),
  });

test('R114 creates links only as the policy of the relay token, the app’s scopes and its return URLs allow', async () => {
  const wrong = [
    [{ app: 'unknown' }, 403],
    [{ user: 'uAAAAAAAAAAAAAAAAAAAAAA' }, 404],
    [{ user: undefined }, 400],
    [{ scopes: ['admin'] }, 400],
    [{ scopes: [] }, 400],
    [{ returnUrl: 'https://elsewhere.test/' }, 400],
    [{ returnUrl: '/connections' }, 400],
  ] as const;
  for (const [request, status] of wrong) expect([request, (await create(request)).status]).toEqual([request, status]);
  const detailOf = ({ body }: ReceivedResponse): unknown => JSON.parse(body).detail;
  expect(
    await Promise.all(
      [{ user: undefined }, { scopes: ['admin'] }, { returnUrl: '/' }].map(async (request) =>
        detailOf(await create(request)),
      ),
    ),
  ).toEqual([
    'Name the user, or send Gatehouse-User-Assertion.',
    'Choose from the scopes that are registered for this app.',
    'Send one of the return URLs of the app as "returnUrl".',
  ]);
  const secondApp = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, signIn: undefined });
  expect((await admin.call('POST', '/connected-apps', secondApp)).status).toBe(201);
  const policy = { scopes: ['connect_links:create'], assertUser: true, apps: ['second'] };
  const { token: tokenOfSecond } = await admin.createRelayToken(policy);
  expect((await admin.call('DELETE', '/connected-apps/second')).status).toBe(204);
  const response = await create({ app: 'second' }, tokenOfSecond);
  expect([response.status, detailOf(response)]).toEqual([404, 'There is no connected app with this id.']);
  const { token: reader } = await admin.createRelayToken({ scopes: ['connections:read'], assertUser: true });
  expect((await create({}, reader)).status).toBe(403);
  const { token: prover } = await admin.createRelayToken({ scopes: ['connect_links:create'] });
  expect((await create({}, prover)).status).toBe(403);
});

test('R114 a link that was created while its relay token was being revoked is not valid', async () => {
  const { id, token: revoked } = await admin.createRelayToken({ scopes: ['connect_links:create'], assertUser: true });
  const { url } = JSON.parse((await create({}, revoked)).body);
  expect((await agent.get(url)).status).toBe(200);
  // As if another process had listed the links to revoke just before this one was created.
  await vault.store.write([{ delete: keys.relayToken(id) }]);
  expect((await agent.get(url)).status).toBe(404);
});

test('R114 passes hints in the URL of a link to the provider, and returns the browser to the service', async () => {
  const browser = createUserAgent({ stopAt: (url) => url.startsWith('https://service.test/') });
  await signIn(site, 'user@example.test', { agent: browser });
  const { url } = JSON.parse((await create({ returnUrl: RETURN_URL })).body);
  // The user consented when they signed in.
  const back = await browser.submit(await browser.get(`${url}?ui_locales=de`), {}, { button: 'Connect' });
  const parameters = new URL(back.visited.find((url) => url.includes('/authorize?')) ?? '').searchParams;
  expect(parameters.get('ui_locales')).toBe('de');
  expect(back.url).toBe(RETURN_URL);
});

test('R114 adds openid to the scopes of a link, and audits its creation and the use of the relay token', async () => {
  const { id: relayTokenId, token: auditedToken } = await admin.createRelayToken({
    scopes: ['connect_links:create'],
    assertUser: true,
  });
  const { id } = JSON.parse((await create({ scopes: ['email'] }, auditedToken)).body);
  const entries = async (event: string) =>
    (await admin.call('GET', `/audit?event=${event}&actor=${relayTokenId}`)).json.items;
  await expect
    .poll(() => entries('connect_link.created'))
    .toMatchObject([
      {
        actor: { kind: 'relay_token', id: relayTokenId },
        ...{ target: { kind: 'connect_link', id }, userId: user },
        facts: { app: 'platform', scopes: ['openid', 'email'] },
      },
    ]);
  await expect
    .poll(() => entries('relay.used'))
    .toMatchObject([{ outcome: 'answered', facts: { scope: 'connect_links:create' } }]);
});

test('R114 refuses a link with a scope that its app no longer registers', async () => {
  const file = site.env.CONNECTED_APPS_FILE ?? '';
  const before = readFileSync(file, 'utf8');
  const [app] = JSON.parse(before) as { scopes: string[] }[];
  const { url } = JSON.parse((await create({ scopes: ['openid', 'email'] })).body);
  const page = await agent.get(url);
  expect(page.status).toBe(200);
  writeFileSync(file, JSON.stringify([{ ...app, scopes: app?.scopes.filter((scope) => scope !== 'email') }]));
  await site.restart();
  const refused = await agent.submit(page, {}, { button: 'Connect' });
  expect([refused.status, refused.body]).toEqual([404, expect.stringContaining('The app has changed since this link')]);
  writeFileSync(file, before);
  await site.restart();
  expect((await agent.submit(page, {}, { button: 'Connect' })).status).toBe(200);
});

/** A signed-in user agent that has followed a link and stopped before the callback. */
const stoppedAtCallback = async () => {
  let stops = false;
  const browser = createUserAgent({ stopAt: (url) => stops && url.includes('/oauth/callback/') });
  await signIn(site, 'user@example.test', { agent: browser });
  const { id, url } = JSON.parse((await create()).body) as { id: string; url: string };
  stops = true;
  const { url: callback } = await throughConsent(browser, await browser.get(url));
  stops = false;
  return { browser, id, url, callback };
};
const throughConsent = async (browser: UserAgent, page: Page) => {
  const consent = await browser.submit(page, {}, { button: 'Connect' });
  return consent.status === 0 ? consent : browser.submit(consent, {}, { button: 'Allow' });
};
const pending = async () => {
  const requests = [];
  for await (const records of vault.store.walk())
    requests.push(...records.filter(({ key }) => key.startsWith('pending-requests')));
  return requests;
};

test('R44 stores no secret of a link while its user is at the provider, and links back to it after a refusal', async () => {
  const { browser, id, url, callback } = await stoppedAtCallback();
  const other = createUserAgent();
  await other.get(url);
  expect((await pending()).length).toBeGreaterThanOrEqual(2);
  for await (const records of vault.store.walk())
    for (const { key, value } of records) expect(key + value).not.toMatch(/gthl_[0-9A-Za-z]{12}/);
  const denied = new URL(callback);
  denied.searchParams.delete('code');
  denied.searchParams.set('error', 'access_denied');
  const refused = await browser.get(denied.href);
  expect([refused.status, refused.body]).toEqual([403, expect.stringContaining(url)]);
  // Both still lead to the page of the link.
  const { page } = await signIn(site, 'user@example.test', { agent: other, path: new URL(url).pathname });
  expect([page.status, page.url]).toEqual([200, url]);
  expect((await admin.call('GET', `/connect-links/${id}`)).json).toMatchObject({ used: false });
});

test('R114 a link expires after 30 minutes', async () => {
  const makeLink = async (): Promise<{ id: string; url: string }> => JSON.parse((await create()).body);
  const listed = async () =>
    ((await admin.call('GET', '/connect-links')).json.items as { id: string }[]).map(({ id }) => id);
  const link = await makeLink();
  advanceClock(1_790);
  const page = await agent.get(link.url);
  expect(page.status).toBe(200);
  advanceClock(11);
  const before = await vault.readGrant(user);
  expect((await agent.submit(page, {}, { button: 'Connect' })).status).toBe(404);
  expect((await agent.get(link.url)).body).toContain('This link no longer works');
  expect(await vault.readGrant(user)).toEqual(before);
  const next = await makeLink();
  expect(await listed()).toEqual([next.id]);
});
