/** An app needs more than its users allowed: the connection works on, a service sees what it lacks, and the user adds it. */
import { afterEach, expect, test } from 'vitest';
import { sessionOf } from '../grants/vault-desk.ts';
import { administratorOf, bearer, relayThread } from '../relay/service.ts';
import { ask } from '../support/ask.ts';
import { openVault } from '../support/fleet.ts';
import { CLIENT_SECRET, sandboxApp, signIn } from '../support/gatehouse.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis, startRedis } from '../support/redis-server.ts';
import { startDocumentedSite } from '../support/seen-responses.ts';

const FULL = 'platform_full_access';
/** In reverse order, whatever the test came to. */
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function startOn(storage: string) {
  const redis = storage === 'Redis' ? await startRedis() : undefined;
  if (redis) closing.push(redis.dispose);
  const env = redis ? { REDIS_URL: redis.url } : {};
  const site = await startDocumentedSite({ sandbox: { accessTokenSeconds: 3_600 }, env });
  closing.push(site.close);
  return site;
}

const TITLE = 'R4 R109 a new scope is missing until the user reconnects, and the connection works all the time: on %s';
test.for(['SQLite', 'Redis'])(TITLE, async (storage, context) => {
  if (storage === 'Redis') skipWithout(context, missingRedis);
  const site = await startOn(storage);
  const vault = await openVault(site.env);
  closing.push(() => vault.store.close());
  const admin = await administratorOf(site, vault);
  const registration = (scopes: string[]) =>
    sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, scopes: ['openid', 'offline_access', ...scopes] });
  const created = await admin.call('POST', '/connected-apps', registration(['platform_read_only']));
  const { agent } = await signIn(site, undefined, { path: '/sign-in?app=second' });
  const { userId } = await sessionOf(site, agent);
  const policy = { scopes: ['threads:read', 'connections:read'], apps: ['second'], assertUser: true };
  const { token } = await admin.makeToken(policy);
  const ofService = async () => {
    const answer = await ask(`${site.url}/relay/connections?user=${userId}`, { headers: bearer(token) });
    return JSON.parse(answer.body).items[0];
  };
  const ofAdministrator = async () => (await admin.call('GET', `/connections/${userId}.second`)).json;
  const ofUser = async () => {
    const answer = await agent.get(`${site.url}/connections`, { headers: { accept: 'application/json' } });
    return JSON.parse(answer.body).connections[0];
  };
  const pages = async () =>
    Promise.all(
      ['/', '/connections', '/connections/second'].map(async (path) => (await agent.get(site.url + path)).body),
    );
  const expectAll = async (seen: object) => {
    for (const view of [ofService, ofAdministrator, ofUser]) expect(await view()).toMatchObject(seen);
  };
  await expectAll({ health: 'active', missingScopes: [] });
  expect((await pages()).join()).not.toMatch(/needs more permissions/i);

  const { version } = created.json;
  const grown = { ...registration(['platform_read_only', FULL]), version };
  expect((await admin.call('PUT', '/connected-apps/second', grown)).status).toBe(200);
  await expectAll({ health: 'active', missingScopes: [FULL] });
  expect((await ofService()).connectUrl).toBe(`${site.url}/connections/second`);
  for (const page of await pages()) expect(page).toMatch(/needs more permissions/i);
  expect((await relayThread(site, token, { 'gatehouse-user': userId })).status).toBe(200);

  const { agent: administrator } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  const shown = async () => (await administrator.get(`${site.url}/admin/connections?scopes=missing`)).body;
  expect(await shown()).toContain(`Lacks <code>${FULL}</code>`);
  expect(await shown()).toContain('<option value="missing" selected>');

  const consent = await agent.submit(
    await agent.get(`${site.url}/`),
    {},
    { button: 'Add permissions Collaboration second' },
  );
  expect(consent.body).toContain('and create new documents');
  await agent.submit(consent, {}, { button: 'Allow' });
  await expectAll({ health: 'active', missingScopes: [], scopes: expect.arrayContaining([FULL, 'offline_access']) });
  expect((await ofService()).connectUrl).toBeNull();
  expect((await pages()).join()).not.toMatch(/needs more permissions/i);
  expect(await shown()).not.toContain('Lacks');
});
