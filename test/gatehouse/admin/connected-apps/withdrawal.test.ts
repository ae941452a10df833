/**
 * Deleting an app that Gatehouse registered at its provider also deletes it there (RFC 7592), and shows the response.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openConsole } from '../../../sandbox/foreign-client.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { APP_DEFAULTS, getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

const INITIAL_TOKEN = 'initial-access-token-of-this-test-0123456789';
const REGISTRATION_TOKEN = 'registration-access-token-of-this-test-0123456789';
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let sandboxConsole: Awaited<ReturnType<typeof openConsole>>;
beforeAll(async () => {
  site = await startSite({ env: { ADMIN_APP: 'platform' }, sandbox: { initialAccessToken: INITIAL_TOKEN } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  sandboxConsole = await openConsole(site);
});
afterEach(() => site.sandbox.faults.clear());
afterAll(async () => {
  await storage.close();
  await site.close();
});

const newApp = (id: string) => ({
  ...{ id, name: `Made ${id}`, issuer: site.sandbox.issuer, scopes: ['openid'] },
  callbackUrls: [`${site.url}/oauth/callback/${id}`],
});

async function register(id: string): Promise<Record<string, unknown>> {
  const { status, json } = await admin.call('POST', '/register-at-provider', {
    ...newApp(id),
    initialAccessToken: INITIAL_TOKEN,
  });
  expect(status).toBe(201);
  expect(await readClientsAtProvider()).toContain(`Made ${id}`);
  return json;
}

const readClientsAtProvider = async (): Promise<string> => (await sandboxConsole.open('/apps')).body;
const isRegistered = async (id: string) => (await admin.call('GET', `/connected-apps/${id}`)).status === 200;
const countDeletions = () => site.sandbox.requests.latest().filter(({ method }) => method === 'DELETE').length;
const readWithdrawals = async (id: string) =>
  (await admin.call('GET', `/audit?event=connected_app.deregistered&target=${id}`)).json.items;

test('deletes the client at the provider, with a notice and an audit entry', async () => {
  const { clientId } = await register('made');
  const { status, json } = await admin.call('DELETE', '/connected-apps/made');
  expect([status, json]).toEqual([200, { providerRegistration: { outcome: 'deleted', detail: expect.any(String) } }]);
  expect([await isRegistered('made'), (await readClientsAtProvider()).includes('Made made')]).toEqual([false, false]);
  expect(await readWithdrawals('made')).toMatchObject([{ facts: { clientId } }]);
});

test.each([
  ['refused', { kind: 'response', status: 403, body: {} }, { outcome: 'refused', status: 403 }, '(status 403)'],
  [
    'unreachable',
    { kind: 'reset' },
    { outcome: 'unreachable' },
    'call to the provider failed: 127.0.0.1:[0-9]+ closed the connection before its response was complete',
  ],
] as const)(
  'if the provider is %s, the app is deleted only here, and its client is named for deletion by hand',
  async (id, fault, provider, cause) => {
    const { clientId } = await register(id);
    site.sandbox.faults.set({ listener: 'identity-provider', method: 'DELETE', ...fault });
    const { status, json } = await admin.call('DELETE', `/connected-apps/${id}`);
    const detail = expect.stringMatching(`${cause}.* client ID ${clientId}: delete it there by hand.$`);
    expect([status, json]).toEqual([200, { providerRegistration: { ...provider, detail } }]);
    expect([await isRegistered(id), (await readClientsAtProvider()).includes(`Made ${id}`)]).toEqual([false, true]);
    expect(await readWithdrawals(id)).toMatchObject([{ outcome: 'not_done', facts: { clientId } }]);
  },
);

test('a change keeps the registration management, except for another client', async () => {
  for (const [id, change, provider] of [
    ['renamed', { name: 'Renamed' }, { outcome: 'deleted' }],
    ['replaced', { clientId: 'registered-by-hand', clientSecret: 'by hand' }, undefined],
  ] as const) {
    const { version } = await register(id);
    const body = { ...APP_DEFAULTS, ...newApp(id), ...change, version };
    const changed = await admin.call('PUT', `/connected-apps/${id}`, {
      clientId: (await readApp(id)).clientId,
      ...body,
    });
    expect(changed.status).toBe(200);
    const deletionsBefore = countDeletions();
    const { status, json } = await admin.call('DELETE', `/connected-apps/${id}`);
    expect([status, json.providerRegistration]).toMatchObject(provider ? [200, provider] : [204, undefined]);
    expect(countDeletions() - deletionsBefore).toBe(provider ? 1 : 0);
  }
});
const readApp = async (id: string) => (await admin.call('GET', `/connected-apps/${id}`)).json;

test('an app that was registered by hand is only deleted here', async () => {
  const byHand = { ...newApp('by-hand'), clientId: 'by-hand', clientSecret: 'by hand' };
  expect((await admin.call('POST', '/connected-apps', byHand)).status).toBe(201);
  const deletionsBefore = countDeletions();
  expect((await admin.call('DELETE', '/connected-apps/by-hand')).status).toBe(204);
  expect(countDeletions()).toBe(deletionsBefore);
});

test('R44 the registration access token is sealed, and in no response or log', async () => {
  site.sandbox.faults.set({
    ...{ listener: 'identity-provider', method: 'POST', path: '/register', kind: 'rewrite' },
    change: (body) => ({ ...body, registration_access_token: REGISTRATION_TOKEN }),
  });
  const registered = await register('canary');
  const records = (await Array.fromAsync(storage.store.dump())).flat();
  const { json: entries } = await admin.call('GET', '/audit?limit=200');
  const visible = [registered, await readApp('canary'), entries, site.logs(), records];
  expect(JSON.stringify(visible)).not.toContain(REGISTRATION_TOKEN);

  // The provider refuses this token, which it did not issue. So the stored token was sent.
  const { json } = await admin.call('DELETE', '/connected-apps/canary');
  expect(json.providerRegistration).toMatchObject({ outcome: 'refused', status: 401 });
});

test('the page shows the response of the provider', async () => {
  const { agent } = await signIn(site, 'admin@example.test');
  const deleteByPage = async (id: string) => {
    await register(id);
    const csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
    return submitDelete(agent, id, { _csrf: csrf });
  };
  expect(await deleteByPage('by-page')).toContain('The registration at the provider was deleted.');
  site.sandbox.faults.set({ listener: 'identity-provider', method: 'DELETE', kind: 'response', status: 503, body: {} });
  expect(await deleteByPage('kept-there')).toMatch(/refused \(status 503\) to delete .*: delete it there by hand\./);
});

async function submitDelete(agent: UserAgent, id: string, fields: Record<string, string>): Promise<string> {
  const { status, body } = await agent.request(`${site.url}/admin/connected-apps/${id}/delete`, {
    method: 'POST',
    headers: { accept: 'text/html', origin: site.url },
    body: new URLSearchParams({ ...fields, typed: `Made ${id}` }),
  });
  expect(status).toBe(200);
  return body;
}
