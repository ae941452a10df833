/**
 * Deleting an app that Gatehouse registered at its provider also deletes it there (RFC 7592), and shows the response.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openConsole } from '../../../sandbox/foreign-client.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
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

const wanted = (id: string) => ({
  ...{ id, name: `Made ${id}`, issuer: site.sandbox.issuer, scopes: ['openid'] },
  callbackUrls: [`${site.url}/oauth/callback/${id}`],
});

async function register(id: string): Promise<Record<string, unknown>> {
  const { status, json } = await admin.call('POST', '/register-at-provider', {
    ...wanted(id),
    initialAccessToken: INITIAL_TOKEN,
  });
  expect(status).toBe(201);
  expect(await clientsThere()).toContain(`Made ${id}`);
  return json;
}

const clientsThere = async (): Promise<string> => (await sandboxConsole.open('/apps')).body;
const isHere = async (id: string) => (await admin.call('GET', `/connected-apps/${id}`)).status === 200;
const deletions = () => site.sandbox.requests.latest().filter(({ method }) => method === 'DELETE').length;
const withdrawals = async (id: string) =>
  (await admin.call('GET', `/audit?event=connected_app.withdrawn&whom=${id}`)).json.items;

test('deletes the client at the provider, with a notice and an audit entry', async () => {
  const { clientId } = await register('made');
  const { status, json } = await admin.call('DELETE', '/connected-apps/made');
  expect([status, json]).toEqual([200, { provider: { outcome: 'deleted', detail: expect.any(String) } }]);
  expect([await isHere('made'), (await clientsThere()).includes('Made made')]).toEqual([false, false]);
  expect(await withdrawals('made')).toMatchObject([{ facts: { clientId } }]);
});

test.each([
  ['refused', { kind: 'response', status: 403, body: {} }, { outcome: 'refused', status: 403 }, '(status 403)'],
  [
    'unreachable',
    { kind: 'reset' },
    { outcome: 'unreachable' },
    'cannot be called: 127.0.0.1:[0-9]+ closed the connection before its response was complete',
  ],
] as const)(
  'a provider that is %s keeps it: it is deleted here all the same, and named to delete by hand',
  async (id, fault, provider, cause) => {
    const { clientId } = await register(id);
    site.sandbox.faults.set({ listener: 'identity-provider', method: 'DELETE', ...fault });
    const { status, json } = await admin.call('DELETE', `/connected-apps/${id}`);
    const detail = expect.stringMatching(`${cause}.* client ID ${clientId}: delete it there by hand.$`);
    expect([status, json]).toEqual([200, { provider: { ...provider, detail } }]);
    expect([await isHere(id), (await clientsThere()).includes(`Made ${id}`)]).toEqual([false, true]);
    expect(await withdrawals(id)).toMatchObject([{ outcome: 'not_done: provider', facts: { clientId } }]);
  },
);

test('a change keeps the registration management, except for another client', async () => {
  for (const [id, change, provider] of [
    ['renamed', { name: 'Renamed' }, { outcome: 'deleted' }],
    ['replaced', { clientId: 'registered-by-hand', clientSecret: 'by hand' }, undefined],
  ] as const) {
    const { version } = await register(id);
    const body = { ...wanted(id), ...change, version };
    const changed = await admin.call('PUT', `/connected-apps/${id}`, { clientId: (await read(id)).clientId, ...body });
    expect(changed.status).toBe(200);
    const before = deletions();
    const { status, json } = await admin.call('DELETE', `/connected-apps/${id}`);
    expect([status, json.provider]).toMatchObject(provider ? [200, provider] : [204, undefined]);
    expect(deletions() - before).toBe(provider ? 1 : 0);
  }
});
const read = async (id: string) => (await admin.call('GET', `/connected-apps/${id}`)).json;

test('an app that was registered by hand is only deleted here', async () => {
  const byHand = { ...wanted('by-hand'), clientId: 'by-hand', clientSecret: 'by hand' };
  expect((await admin.call('POST', '/connected-apps', byHand)).status).toBe(201);
  const before = deletions();
  expect((await admin.call('DELETE', '/connected-apps/by-hand')).status).toBe(204);
  expect(deletions()).toBe(before);
});

test('R44 the token that deletes it is sealed, and in no response or log', async () => {
  site.sandbox.faults.set({
    ...{ listener: 'identity-provider', method: 'POST', path: '/register', kind: 'rewrite' },
    change: (body) => ({ ...body, registration_access_token: REGISTRATION_TOKEN }),
  });
  const made = await register('canary');
  const kept = (await Array.fromAsync(storage.store.dump())).flat();
  const told = [made, await read('canary'), (await admin.call('GET', '/audit?limit=200')).json, site.logs(), kept];
  expect(JSON.stringify(told)).not.toContain(REGISTRATION_TOKEN);
  // The provider knows no such token: it was this one that was sent.
  const { json } = await admin.call('DELETE', '/connected-apps/canary');
  expect(json.provider).toMatchObject({ outcome: 'refused', status: 401 });
});

test('the page shows the response of the provider', async () => {
  const { agent } = await signIn(site, 'admin@example.test');
  const page = async (id: string) => {
    await register(id);
    const csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
    return submitDelete(agent, id, { _csrf: csrf });
  };
  expect(await page('by-page')).toContain('The registration at the provider was deleted.');
  site.sandbox.faults.set({ listener: 'identity-provider', method: 'DELETE', kind: 'response', status: 503, body: {} });
  expect(await page('kept-there')).toMatch(/refused \(status 503\) to delete .*: delete it there by hand\./);
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
