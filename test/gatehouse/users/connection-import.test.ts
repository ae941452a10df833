/** The import of connections by the admin API and by the command: which entries it refuses, and with which cause. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createGrantImports } from '../../../src/gatehouse/grants/imported-grant.ts';
import { userIdOf } from '../../../src/gatehouse/users/user-id.ts';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { appOfFile } from '../../support/apps.ts';
import { sealerOf } from '../../support/encryption-keys.ts';
import { getJson } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { createAdminToken, runCommand } from '../../support/terminal.ts';
import { until } from '../../support/until.ts';
import { connectionsOf, openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';

const APP = 'elsewhere';
const SUBJECT_OF_ADA = 'user-1';

let site: HostileSite;
let storage: StorageAccess;
let admin: Administrator;
/** That of Ada’s connection, which is removed before each test, so that the test can import it. */
let refreshToken: string;
let userId: string;
/** A browser that Ada is signed in with. */
let agent: Awaited<ReturnType<typeof attempt>>['agent'];
beforeAll(async () => {
  site = await startHostileSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});
beforeEach(async () => {
  site.provider.signInAs({ sub: SUBJECT_OF_ADA, name: 'Ada Quill', email: 'ada@example.test' });
  const signIn = await attempt(site);
  agent = signIn.agent;
  const session = await sessionOf(site, agent);
  userId = session.userId;

  const stored = await storage.grants.loadStored(userId, APP);
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  refreshToken = stored.grant.refreshToken ?? '';
  await storage.grants.remove(userId, APP, stored.version);
});
afterEach(() => site.provider.reset());

const entryWith = (changes: Record<string, unknown> = {}) => ({
  user: { subject: SUBJECT_OF_ADA },
  app: APP,
  refreshToken,
  ...changes,
});
const importEntries = async (...entries: unknown[]) => {
  const { status, json } = await admin.call('POST', '/connections/import', { entries });
  expect(JSON.stringify(json)).not.toContain(refreshToken);
  return { status, json };
};
const readFailures = async (...entries: unknown[]) => {
  const { status, json } = await importEntries(...entries);
  expect(status).toBe(200);
  return json.failures;
};
const readAuditEntries = async (event: string) => {
  const { json } = await admin.call('GET', `/audit?event=${event}`);
  return json.items as Record<string, unknown>[];
};
const runImportCommand = (text: string) => {
  const file = join(site.dataDirectory, 'import.json');
  writeFileSync(file, text);
  return runCommand(['connections', 'import', file], site.env);
};

test('an imported connection works, has one audit entry without a token, and is not imported twice', async () => {
  const entriesBefore = (await readAuditEntries('connection.imported')).length;
  expect(await importEntries(entryWith())).toMatchObject({ status: 200, json: { imported: 1, failures: [] } });
  const thread = await getJson(agent, `${site.url}/threads/current`);
  expect(thread.status).toBe(200);

  const entries = await readAuditEntries('connection.imported');
  expect(entries.length).toBe(entriesBefore + 1);
  expect(entries[0]).toMatchObject({
    actor: { kind: 'admin_token' },
    userId,
    target: { kind: 'connection', id: `${userId}/${APP}` },
  });
  const grant = await storage.readGrant(userId, APP);
  expect(JSON.stringify(entries)).not.toContain(grant.refreshToken);
  expect(grant.account).toEqual({ issuer: site.provider.issuer, subject: SUBJECT_OF_ADA });

  site.provider.hits.length = 0;
  const secondImport = await importEntries(entryWith({ refreshToken: 'another-one' }));
  expect(secondImport.json).toMatchObject({ imported: 0, alreadyConnected: 1, failures: [] });
  expect(site.provider.hitsOf('refresh')).toEqual([]);
  expect(await storage.readGrant(userId, APP)).toEqual(grant);
});

test('R111: a refused token leaves no working connection, and is replaced by a later import', async () => {
  const refused = { position: 0, userId, app: APP, result: 'refused', cause: 'grant_refused' };
  expect(await readFailures(entryWith({ refreshToken: 'never-issued' }))).toMatchObject([refused]);
  expect(await connectionsOf(site, agent)).toMatchObject([{ app: APP, health: 'reconnect_needed' }]);
  const thread = await getJson(agent, `${site.url}/threads/current`);
  expect([thread.status, thread.json.code]).toEqual([403, 'reconnect_needed']);

  // An import of the same refused token makes no call.
  site.provider.hits.length = 0;
  expect(await readFailures(entryWith({ refreshToken: 'never-issued' }))).toMatchObject([refused]);
  expect(site.provider.hitsOf('refresh')).toEqual([]);

  expect(await importEntries(entryWith())).toMatchObject({ json: { imported: 1, failures: [] } });
});

test('R111: a token of another account is refused and deleted', async () => {
  expect(await readFailures(entryWith({ account: { subject: 'user-2' } }))).toMatchObject([
    { result: 'refused', cause: 'other_account' },
  ]);
  expect(await storage.grants.loadStored(userId, APP)).toBeUndefined();
  expect(site.provider.hitsOf('revocation')).toEqual([]);
  expect((await getJson(agent, `${site.url}/threads/current`)).json.code).toBe('not_connected');
});

test('an imported connection without an account belongs to the account that the first ID token names', async () => {
  await importEntries(entryWith());
  await storage.changeGrant(
    userId,
    ({ account }) => ({ account: { issuer: account.issuer }, accessToken: '', expiresAt: 0 }),
    APP,
  );

  expect((await getJson(agent, `${site.url}/threads/current`)).status).toBe(200);
  expect((await storage.readGrant(userId, APP)).account).toEqual({
    issuer: site.provider.issuer,
    subject: SUBJECT_OF_ADA,
  });
});

test('R111: a connection that is imported while the provider is unavailable is unverified, and works after a later import', async () => {
  site.provider.setModes({ responses: { refresh: (res) => void res.writeHead(503).end() } });
  expect(await readFailures(entryWith({ refreshToken: 'not-checked' }))).toMatchObject([
    { result: 'unchecked', cause: 'provider_unavailable' },
  ]);
  const { accessToken, failure } = await storage.readGrant(userId, APP);
  expect([accessToken, failure?.kind]).toEqual(['', 'passing']);
  expect(await connectionsOf(site, agent)).toMatchObject([{ health: 'unverified' }]);

  site.provider.reset();
  // The wait before the next attempt is over. This provider spends tokens that it refuses, so the token is replaced.
  await storage.changeGrant(
    userId,
    (grant) => ({ refreshToken, failure: grant.failure && { ...grant.failure, retryAt: 0 } }),
    APP,
  );
  expect(await importEntries(entryWith())).toMatchObject({ json: { imported: 1, failures: [] } });
});

test('R111: a connection that cannot be read because its key is missing is reported and not replaced', async () => {
  const { store } = storage;
  const lostKeySealer = sealerOf({ ENCRYPTION_KEYS: generateEncryptionKey(new Date()) });
  const lostKeyGrants = createGrantStore({ store, sealedJson: createSealedJson(lostKeySealer), clock: Date.now });
  const grant = { id: 'c1', userId, appId: APP, refreshToken: 'of-the-lost-key', connectedAt: 1 } as Grant;
  expect(await lostKeyGrants.save(grant, 0)).toBeDefined();
  const recordBefore = await store.get(keys.grant(userId, APP));
  const entriesBefore = (await readAuditEntries('connection.imported')).length;

  const { json } = await importEntries(entryWith());
  expect(json).toMatchObject({ imported: 0, refused: 0, invalid: 1 });
  expect(json.failures).toMatchObject([{ position: 0, userId, app: APP, result: 'invalid', cause: 'unreadable' }]);
  expect(await store.get(keys.grant(userId, APP))).toEqual(recordBefore);
  expect((await readAuditEntries('connection.imported')).length).toBe(entriesBefore);
  expect(site.provider.hitsOf('refresh')).toEqual([]);
  await lostKeyGrants.remove(userId, APP, recordBefore?.version ?? 0);
});

test('R111: an imported token that was stored but not tried is tried at the next start', async () => {
  const app = appOfFile(site.env, APP);
  const imports = createGrantImports({
    isRegistered: async () => true,
    grants: storage.grants,
    clock: Date.now,
    refresher: { attempt: () => Promise.reject(new Error('The process has ended.')) },
  });
  const imported = {
    userId,
    app,
    refreshToken,
    scopes: ['openid'],
    account: { subject: SUBJECT_OF_ADA },
    conditions: async () => [],
  };
  expect(await imports.seal(imported, async () => undefined)).toBeUndefined();

  const webhook = { url: `${site.provider.issuer}/hook`, events: ['connection.created', 'connection.recovered'] };
  const { id } = (await admin.call('POST', '/webhooks', webhook)).json;

  await site.restart();
  await until(async () => (await storage.readGrant(userId, APP)).accessToken !== '');
  const readMessages = async () => {
    const { json } = await admin.call('GET', `/webhooks/${id}/messages`);
    return json.items as { event: string }[];
  };
  await until(async () => (await readMessages()).length > 0);
  expect(await readMessages()).toMatchObject([{ event: 'connection.created' }]);
  expect(site.provider.hitsOf('refresh').length).toBe(1);
  expect(await importEntries(entryWith())).toMatchObject({ json: { alreadyConnected: 1, failures: [] } });
});

test('a connection that is imported for a user who has not signed in yet works after the first sign-in', async () => {
  const id = userIdOf(site.provider.issuer, 'user-9');
  site.provider.signInAs({ sub: 'user-9', name: 'Nell' });
  await attempt(site);
  const { grant, version } = (await storage.grants.loadStored(id, APP)) as {
    grant: { refreshToken: string };
    version: number;
  };
  await storage.grants.remove(id, APP, version);
  await admin.call('DELETE', `/users/${id}`);

  const entry = entryWith({
    user: { subject: 'user-9', issuer: site.provider.issuer },
    refreshToken: grant.refreshToken,
  });
  expect(await importEntries(entry)).toMatchObject({ json: { imported: 1, failures: [] } });
  const { json } = await admin.call('GET', `/connections/${id}.${APP}`);
  expect(json).toMatchObject({ user: { id }, health: 'active' });
  const { agent: agentOfUser } = await attempt(site);
  expect((await getJson(agentOfUser, `${site.url}/threads/current`)).status).toBe(200);
});

test('R19: each invalid entry is reported with its line and cause, and the others are imported', async () => {
  const entries = [
    entryWith({ app: 'unheard-of' }),
    entryWith({ user: { id: 'u0000000000000000000000' } }),
    entryWith({ user: { email: 'ada@example.test' } }),
    entryWith({ user: { subject: SUBJECT_OF_ADA, issuer: 'https://else.example' } }),
    entryWith({ user: {} }),
    entryWith({ refreshToken: '' }),
    ['an array'],
    entryWith({ user: { id: userId } }),
    entryWith(),
  ];
  const lines = entries.map((entry) => JSON.stringify(entry));
  const incompleteLine = '{"user":';

  const { status, stdout, stderr } = await runImportCommand(`${incompleteLine}\n${lines.join('\n')}\n`);
  expect([status, stderr]).toEqual([1, '']);
  const [summary, _emptyLine, ...table] = stdout.trimEnd().split('\n');
  expect(summary).toBe('1 imported, 0 already connected, 0 refused, 0 not checked, 9 not valid.');
  expect(table.map((row) => row.trim().split(/ {2,}/))).toEqual([
    ['line', 'result', 'app', 'user', 'reason'],
    ['1', 'not valid', '-', '-', 'This is not a JSON object.'],
    ['2', 'not valid', 'unheard-of', '-', 'There is no connected app with this id.'],
    ['3', 'not valid', APP, 'u0000000000000000000000', expect.stringContaining('No user with this id has signed in')],
    ['4', 'not valid', '-', '-', expect.stringContaining('An e-mail address does not identify a user')],
    ['5', 'not valid', APP, '-', 'No connected app signs users in at this issuer.'],
    ['6', 'not valid', '-', '-', expect.stringContaining('Use either "id" or "subject"')],
    ['7', 'not valid', '-', '-', expect.stringContaining('#/refreshToken')],
    ['8', 'not valid', '-', '-', 'This is not a JSON object.'],
    ['10', 'not valid', APP, userId, 'An earlier entry is for the same user and app.'],
  ]);
  expect(stdout).not.toContain(refreshToken);
  expect((await readAuditEntries('connection.imported'))[0]).toMatchObject({ actor: { kind: 'operator' }, userId });
});

test('nothing is imported for a disabled user or from a missing file', async () => {
  await admin.call('POST', `/users/${userId}/disable`);
  expect(await readFailures(entryWith())).toMatchObject([{ result: 'invalid', cause: 'user_disabled' }]);
  await admin.call('POST', `/users/${userId}/enable`);
  expect(await storage.grants.loadStored(userId, APP)).toBeUndefined();

  const { status, stderr } = await runCommand(['connections', 'import', '/no/such/file'], site.env);
  expect([status, stderr]).toEqual([1, 'This cannot be done: /no/such/file cannot be read: check the path.\n']);
});

test('R111: only an administrator with write access imports, at most 100 entries per call', async () => {
  const importWith = async (headers: Record<string, string>) => {
    const body = JSON.stringify({ entries: [entryWith()] });
    const { status } = await sendRequest(`${site.url}/admin/api/connections/import`, { method: 'POST', headers, body });
    return status;
  };
  const readToken = await createAdminToken(site, { scope: 'read' });
  expect(await importWith({ ...ACCEPT_JSON, ...JSON_BODY })).toBe(401);
  expect(await importWith({ ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${readToken}` })).toBe(403);

  const tooMany = await importEntries(...Array.from({ length: 101 }, () => entryWith()));
  expect([tooMany.status, tooMany.json.code]).toEqual([400, 'invalid_request']);
  expect(await storage.grants.loadStored(userId, APP)).toBeUndefined();
});
