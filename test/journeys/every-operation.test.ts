/** Calls every documented operation: each documented status occurs, and each response is as described. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess, sessionOf } from '../gatehouse/grants/storage-access.ts';
import {
  type Administrator,
  assertionOf,
  bearer,
  createAdministrator,
  exchange,
  relayThread,
} from '../gatehouse/relay/service.ts';
import { type ApiContract, apiContract } from '../support/api-document.ts';
import { createUserAgent, type UserAgent } from '../support/browserless.ts';
import {
  CLIENT_SECRET,
  getJson,
  JSON_ONLY,
  sandboxApp,
  signIn,
  startSite,
  type TestSite,
} from '../support/gatehouse.ts';
import { recordResponses } from '../support/recorded-responses.ts';
import { ACCEPT_JSON, FORM_BODY, JSON_BODY, sendRequest } from '../support/send-request.ts';

const INITIAL_ACCESS_TOKEN = 'initial-access-token-of-this-test-0123456789';
const USER = 'urn:gatehouse:token-type:user';

const ROUTES = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].map((method) => ({
  ...{ name: method.toLowerCase(), method, path: '/1/things/{id}' },
}));

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let contract: ApiContract;
let responses: ReturnType<typeof recordResponses>;
beforeAll(async () => {
  site = await startSite({
    env: { ADMIN_APP: 'platform' },
    sandbox: { accessTokenSeconds: 3_600, initialAccessToken: INITIAL_ACCESS_TOKEN },
    apps: (urls) => [sandboxApp(urls, 'platform', { routes: ROUTES })],
  });
  contract = await apiContract(site);
  responses = recordResponses(site);
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  responses?.stop();
  await storage?.close();
  await site?.close();
});

const call = async (method: string, path: string, body?: unknown): Promise<Record<string, unknown>> => {
  const { status, json } = await admin.call(method, path, body);
  expect(status, `${method} ${path}: ${JSON.stringify(json)}`).toBeLessThan(300);
  return json;
};
const firstId = async (list: string): Promise<string> => {
  const { items } = (await call('GET', list)) as { items: { id: string }[] };
  return String(items[0]?.id);
};

/** Sends a POST of a signed-in user as JSON or as a form. */
async function postAsUser(
  agent: UserAgent,
  path: string,
  { accept = ACCEPT_JSON.accept, json }: { accept?: string; json?: unknown } = {},
) {
  const { csrfToken } = (await getJson(agent, `${site.url}/session`)).json;
  return agent.request(site.url + path, {
    method: 'POST',
    follow: false,
    headers: { accept, 'x-csrf-token': String(csrfToken), ...(json === undefined ? FORM_BODY : JSON_BODY) },
    body: json === undefined ? (path === '/bin' ? 'bin=45717360' : '') : JSON.stringify(json),
  });
}
const HTML = { accept: 'text/html' };

test('a user signs in, reads, connects, disconnects and signs out', async () => {
  await createUserAgent().get(`${site.url}/session`, JSON_ONLY);
  for (const path of ['/sessions', '/connections']) await createUserAgent().get(site.url + path, { follow: false });
  const { agent } = await signIn(site);
  for (const path of [
    '/session',
    '/sessions',
    '/connections',
    '/threads/current',
    '/bin/45717360',
    '/session/verify',
  ]) {
    await agent.get(site.url + path, JSON_ONLY);
    await agent.get(site.url + path);
  }
  for (const path of ['/.well-known/jwks.json', '/openapi.json', '/docs/relay']) await agent.get(site.url + path);
  await postAsUser(agent, '/bin', { json: { bins: ['45717360', 'x', '99999999'] } });
  await postAsUser(agent, '/bin', HTML);

  await postAsUser(agent, '/connections/platform/disconnect');
  await postAsUser(agent, '/connections/platform/disconnect');
  await postAsUser(agent, '/connections/platform/disconnect', HTML);
  for (const accept of [ACCEPT_JSON.accept, HTML.accept]) await postAsUser(agent, '/connections/platform', { accept });

  for (const accept of [ACCEPT_JSON.accept, HTML.accept]) {
    await signIn(site);
    const { items: sessions } = (await getJson(agent, `${site.url}/sessions`)).json as {
      items: { id: string; current: boolean }[];
    };
    await postAsUser(agent, `/sessions/${sessions.find(({ current }) => !current)?.id}/end`, { accept });
  }
  for (const accept of [ACCEPT_JSON.accept, HTML.accept]) {
    for (const path of ['/sign-out', '/sign-out/everywhere'])
      await postAsUser((await signIn(site)).agent, path, { accept });
  }
  await postAsUser((await signIn(site, 'second@example.test')).agent, '/account/delete');
  await postAsUser((await signIn(site, 'second@example.test')).agent, '/account/delete', HTML);
});

test('a service reads threads, BINs and connections, and exchanges tokens', async () => {
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const { token } = await admin.createRelayToken({ assertUser: true });
  const assertion = await assertionOf(site, agent.cookies.header(site.url));
  await relayThread(site, token, { 'gatehouse-user-assertion': assertion });
  await sendRequest(`${site.url}/relay/connections`, { headers: bearer(token) });
  const link = await sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...bearer(token), ...JSON_BODY },
    body: JSON.stringify({ userId, app: 'platform' }),
  });
  const { id: linkId, url: linkUrl } = JSON.parse(link.body);
  await postAsUser(agent, new URL(linkUrl).pathname);
  await agent.submit(await agent.get(linkUrl), {}, { button: 'Connect' });
  await call('GET', '/connect-links');
  await call('GET', `/connect-links/${linkId}`);
  await call('DELETE', `/connect-links/${linkId}`);
  await sendRequest(`${site.url}/relay/bin/45717360`, { headers: bearer(token) });
  const bins = JSON.stringify({ bins: ['45717360', 'x'] });
  await sendRequest(`${site.url}/relay/bin`, {
    method: 'POST',
    headers: { ...bearer(token), ...JSON_BODY },
    body: bins,
  });

  const user = { subject_token: userId, subject_token_type: USER };
  await exchange(site, token, user);
  await exchange(site, token, { ...user, audience: 'unknown' });
  await exchange(site, 'gthr_unknown', user);
  const endFault = site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'unavailable' });
  await exchange(site, token, { ...user, scope: 'platform_read_only' });
  endFault();
});

test('a user and a service call declared routes', async () => {
  const { token } = await admin.createRelayToken({ assertUser: true, routes: ROUTES.map(({ name }) => name) });
  const { agent } = await signIn(site);
  const { userId, csrfToken } = await sessionOf(site, agent);
  const asUser = { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url), 'x-csrf-token': csrfToken };
  const asService = { ...bearer(token), 'gatehouse-user': userId };
  const endFault = site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 200, body: {} });
  for (const [prefix, headers] of [['/api', asUser] as const, ['/relay/api', asService] as const]) {
    await sendRequest(`${site.url}${prefix}/platform`, { headers });
    for (const { method } of ROUTES) {
      const body = method === 'GET' ? {} : { body: '{}' };
      const allHeaders = { ...JSON_BODY, ...headers };
      await sendRequest(`${site.url}${prefix}/platform/1/things/17`, { method, headers: allHeaders, ...body });
    }
  }
  endFault();
});

test('a provider sends a logout token', async () => {
  await call('POST', '/register-at-provider', {
    ...sandboxApp(site, 'second', { id: 'registered', clientId: undefined, clientSecret: undefined }),
    callbackUrls: [`${site.url}/oauth/callback/registered`],
    initialAccessToken: INITIAL_ACCESS_TOKEN,
  });
  await createUserAgent().get(`${site.url}/sign-in`);
  await sendRequest(`${site.url}/oauth/backchannel-logout/registered`, {
    method: 'POST',
    headers: FORM_BODY,
    body: '',
  });
  const { agent } = await signIn(site, 'user@example.test', { path: '/sign-in?app=registered' });
  const confirmationPage = await agent.submit(await agent.get(`${site.url}/`), {}, { button: 'Sign out' });
  await agent.submit(confirmationPage, {}, { button: 'Sign out' });
});

test('an administrator reads and changes every resource with the API', async () => {
  const { agent } = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  const { userId } = await sessionOf(site, agent);
  const { accessToken: apiToken } = await storage.readGrant(userId);
  for (const path of ['/overview', '/search?q=platform', '/keys', '/revocations', '/audit', '/bin'])
    await call('GET', path);
  await call('GET', `/sign-ins/${await firstId('/sign-ins')}`);

  const second = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET });
  const { version: _, ...app } = second as Record<string, unknown>;
  const created = await call('POST', '/connected-apps', app);
  const { id: _id, ...changed } = app;
  await call('GET', '/connected-apps');
  await call('GET', '/connected-apps/second');
  await call('GET', '/connected-apps/second/timeline');
  await call('PUT', '/connected-apps/second', { ...changed, version: created.version });
  await call('POST', '/connected-apps/second/check', undefined);
  await call('POST', '/callback-urls', { id: 'second', urls: [`${site.url}/oauth/callback/second`] });
  await call('POST', '/route-patterns', { routes: [{ name: 'thread', method: 'GET', path: '/1/threads/{id}' }] });

  const { id: tokenId, version: tokenVersion } = await admin.createRelayToken();
  const policy = {
    name: 'changed',
    scopes: ['threads:read'],
    apps: ['platform'],
    users: 'all',
    routes: [],
    networks: [],
    ...{ assertUser: false, fullScope: false, acceptIdTokens: false, binCallsPerMonth: null },
    expiresAt: '2099-01-31T00:00:00Z',
  };
  await call('GET', '/relay-tokens');
  await call('GET', `/relay-tokens/${tokenId}`);
  await call('GET', `/relay-tokens/${tokenId}/timeline`);
  await call('PUT', `/relay-tokens/${tokenId}`, { ...policy, version: tokenVersion });
  await call('POST', `/relay-tokens/${tokenId}/rotate`, { overlapSeconds: 60 });
  await call('POST', `/relay-tokens/${tokenId}/end-overlap`);
  await call('POST', '/policy/explain', { relayToken: tokenId, scope: 'bin:read', address: '127.0.0.1' });
  await call('DELETE', `/relay-tokens/${tokenId}`);

  const account = await call('POST', '/service-accounts', { name: 'Nightly', app: 'platform', apiToken });
  await call('GET', `/service-accounts/${await firstId('/service-accounts')}`);
  await call('PUT', `/service-accounts/${account.id}`, { name: 'Daily', version: account.version });
  await call('DELETE', `/service-accounts/${account.id}`);

  const webhookInput = { url: `${site.sandbox.platformUrl}/hook`, events: ['connection.removed'] };
  const webhook = await call('POST', '/webhooks', webhookInput);
  await call('GET', `/webhooks/${await firstId('/webhooks')}`);
  await call('PUT', `/webhooks/${webhook.id}`, { ...webhookInput, disabled: false, version: webhook.version });
  await call('POST', `/webhooks/${webhook.id}/rotate`, {});
  await call('POST', `/webhooks/${webhook.id}/end-overlap`);
  const { id: messageId } = await call('POST', `/webhooks/${webhook.id}/test`);
  await call('GET', `/webhooks/${webhook.id}/messages/${messageId}`);
  await call('POST', `/webhooks/${webhook.id}/messages/${messageId}/resend`);

  const adminToken = { name: 'Reads', scope: 'read', expiresAt: new Date(Date.now() + 86_400_000).toISOString() };
  const { id: adminTokenId } = await call('POST', '/admin-tokens', adminToken);
  await call('GET', '/admin-tokens');
  await call('GET', `/admin-tokens/${adminTokenId}`);
  await call('DELETE', `/admin-tokens/${adminTokenId}`);

  await call('GET', `/connections/${encodeURIComponent(await firstId('/connections'))}`);
  await call('DELETE', `/connections/${encodeURIComponent(await firstId('/connections'))}`);
  await call('POST', '/connections/import', {
    entries: [{ user: { subject: 'of-another-system' }, app: 'unknown', refreshToken: 'unknown' }],
  });
  const { token: uploader } = await call('POST', '/admin-tokens', { ...adminToken, scope: 'write' });
  const uploadRows = async (source: string) => {
    const rows = 'BIN,Brand,Type,isoCode2\n40001234,VISA,DEBIT,DK\n';
    const { body } = await sendRequest(`${site.url}/admin/api/bin/uploads?asOf=2026-11-01&source=${source}`, {
      method: 'POST',
      headers: { ...bearer(String(uploader)), 'content-type': 'text/csv' },
      body: rows,
    });
    return JSON.parse(body).id as string;
  };
  for (const source of ['first', 'second']) await call('POST', `/bin/uploads/${await uploadRows(source)}/import`, {});
  const uploadId = await uploadRows('third');
  await call('GET', `/bin/uploads/${uploadId}`);
  await call('DELETE', `/bin/uploads/${uploadId}`);
  await call('POST', '/bin/rollback', {});
  await call('POST', '/connected-apps/platform/disconnect-everyone');
  await call('GET', '/connected-apps/platform/disconnect-everyone');
  await call('GET', `/webhooks/${webhook.id}/messages`);
  await call('DELETE', `/webhooks/${webhook.id}`);
  await call('DELETE', '/connected-apps/second');

  await call('DELETE', `/sessions/${await firstId('/sessions')}`);
  await call('GET', '/users');
  await call('GET', `/users/${userId}`);
  await call('GET', `/users/${userId}/timeline`);
  for (const path of ['sign-out', 'disable', 'enable']) await call('POST', `/users/${userId}/${path}`);
  await call('DELETE', `/users/${userId}`);
  await call('DELETE', '/connected-apps/registered');
  await call('POST', '/keys/rotate-signing');
  await call('POST', '/keys/rotate-encryption');
  await call('GET', '/keys');
});

test('every operation and every documented status has occurred, as the document describes it', () => {
  const occurred = new Set(responses.seen.map(contract.nameOf));
  expect(contract.documented.filter((name) => !occurred.has(name))).toEqual([]);
  expect(responses.seen.flatMap(contract.faultsOf)).toEqual([]);
  const undocumented = {
    method: 'GET',
    path: '/session',
    status: 200,
    contentType: 'application/json',
    body: '{"signedIn":1}',
  };
  expect(contract.faultsOf(undocumented)).toHaveLength(1);
  expect(contract.faultsOf({ ...undocumented, status: 202 })).toEqual([
    'GET /session 202: status 202 is not documented',
  ]);
});
