/** R118: a connection keeps its id while account and registration stay the same, and is found by it everywhere. */
import { writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { newConnectionId } from '../../../src/gatehouse/grants/connection-ids.ts';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { keys, kindOf } from '../../../src/shared/storage/keys.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import type { Write } from '../../../src/shared/storage/store.ts';
import { PLATFORM } from '../../support/apps.ts';
import { status } from '../../support/broken-responses.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { type Receiver, startReceiver } from '../../support/webhook-receiver.ts';
import { grantOf } from '../admin/many.ts';
import { type Administrator, bearer, createAdministrator } from '../relay/service.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { connectionsOf, disconnect, openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

const ANN = { sub: 'ann', email: 'ann@example.test' };
const BEN = { sub: 'ben', email: 'ben@example.test' };
const OTHER_CLIENT = 'hostile-client_2';
const CONNECTION_ID = /^cn[0-9A-Za-z]{11}$/;

let provider: HostileProvider;
let site: HostileSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let userId: string;
let receiver: Receiver;

const filesApp = (changes: Record<string, unknown> = {}) =>
  provider.app(site.url, { id: 'files', name: 'Files', signIn: undefined, ...changes });

async function connect(person = ANN): Promise<string> {
  provider.signInAs(person);
  const { csrfToken } = await sessionOf(site, agent);
  const body = new URLSearchParams({ _csrf: csrfToken });
  await agent.request(`${site.url}/connections/files`, { method: 'POST', body });
  provider.signInAs(ANN);
  return idOf('files');
}

async function idOf(app: string): Promise<string> {
  const connection = (await connectionsOf(site, agent)).find((candidate) => candidate.app === app);
  expect(connection).toMatchObject({ id: expect.stringMatching(CONNECTION_ID), health: 'active' });
  return (connection as unknown as { id: string }).id;
}

/** The connection as an administrator reads it, or the status of a refusal. */
const readConnection = async (id: string) => {
  const { status, json } = await admin.call('GET', `/connections/${id}`);
  return status === 200 ? json : status;
};

/** The keys of the records that exist for ids, and those that should exist for the ids of the stored grants. */
async function readIdKeys(): Promise<{ existing: string[]; expected: string[] }> {
  const existing: string[] = [];
  const expected: string[] = [];
  for await (const records of storage.store.walk()) {
    for (const { key } of records) {
      if (kindOf(key) === 'connection-id') existing.push(key);
      if (kindOf(key) !== 'grant') continue;
      const [, user = '', app = ''] = /^grant:\{(.*)\}:(.*)$/.exec(key) ?? [];
      const grant = await storage.readGrant(user, app);
      expected.push(keys.connectionId(grant.id));
    }
  }
  return { existing: existing.toSorted(), expected: expected.toSorted() };
}

beforeAll(async () => {
  receiver = await startReceiver();
  provider = await startHostileProvider({ otherClientIds: [OTHER_CLIENT] });
  site = await startHostileSite({
    provider,
    apps: (at, url) => [at.app(url), at.app(url, { id: 'files', name: 'Files', signIn: undefined })],
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  provider.signInAs(ANN);
  ({ agent } = await attempt(site));
  ({ userId } = await sessionOf(site, agent));
});
afterEach(async () => {
  vi.restoreAllMocks();
  const { existing, expected } = await readIdKeys();
  expect(existing).toEqual(expected);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
  await provider?.close();
  receiver?.close();
});

test('R118 a connection keeps its id over a refresh, a sign-in, a new consent and a restart', async () => {
  const id = await connect();
  const signInId = await idOf('elsewhere');
  expect(signInId).not.toBe(id);

  await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1_000 }), 'files');
  const { accessToken } = await storage.readGrant(userId, 'files');

  expect((await getJson(agent, `${site.url}/threads/current?app=files`)).status).toBe(200);
  expect((await storage.readGrant(userId, 'files')).accessToken).not.toBe(accessToken);
  expect(await idOf('files')).toBe(id);
  expect(await connect()).toBe(id);

  const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 1, failures: 1, retryAt: 1 } as const;
  await storage.changeGrant(userId, () => ({ failure }), 'files');

  expect(await connect()).toBe(id);

  await attempt(site, { agent });
  await site.restart();

  expect(await idOf('files')).toBe(id);
  expect(await idOf('elsewhere')).toBe(signInId);
});

test('R118 another account, another registration and a new connection get a new id, and an earlier id finds nothing', async () => {
  const idOfAnn = await connect();
  expect(await readConnection(idOfAnn)).toMatchObject({ id: idOfAnn, user: { id: userId }, app: 'files' });

  const idOfBen = await connect(BEN);
  expect(await readConnection(idOfBen)).toMatchObject({ id: idOfBen, account: BEN.email });

  const text = JSON.stringify([provider.app(site.url), filesApp({ clientId: OTHER_CLIENT })]);
  writeFileSync(site.env.CONNECTED_APPS_FILE ?? '', text);
  await site.restart();
  const idOfOtherClient = await connect(BEN);
  await disconnect(site, agent, 'files');
  const idAfterDisconnect = await connect(BEN);

  expect(new Set([idOfAnn, idOfBen, idOfOtherClient, idAfterDisconnect]).size).toBe(4);
  expect(await Promise.all([idOfAnn, idOfBen, idOfOtherClient].map(readConnection))).toEqual([404, 404, 404]);
  expect(await readConnection(idAfterDisconnect)).toMatchObject({
    id: idAfterDisconnect,
    user: { id: userId },
    app: 'files',
  });
});

test('R118 JSON, search, webhooks, audit trail and log have the id next to user and app', async () => {
  const events = ['connection.created', 'connection.removed', 'connection.reconnect_needed', 'connection.recovered'];
  await admin.call('POST', '/webhooks', { url: receiver.url, events });
  await disconnect(site, agent, 'files');
  const id = await connect();
  const facts = { id, app: 'files' };
  const { token } = await admin.createRelayToken({ apps: ['files'], assertUser: true });

  const relay = await sendRequest(`${site.url}/relay/connections?user=${userId}`, { headers: bearer(token) });
  expect(JSON.parse(relay.body).items).toMatchObject([{ ...facts, userId }]);
  expect((await getJson(agent, `${site.url}/connections`)).json.items).toContainEqual(expect.objectContaining(facts));

  const ofUser = expect.objectContaining({ ...facts, user: expect.objectContaining({ id: userId }) });
  expect((await admin.call('GET', `/connections?user=${userId}`)).json.items).toContainEqual(ofUser);
  expect((await admin.call('GET', `/users/${userId}`)).json.connections).toContainEqual(ofUser);
  expect(await readConnection(`${userId}.files`)).toEqual(await readConnection(id));

  const path = `/admin/connections/${id}`;
  const searchResult = { q: id, groups: [{ kind: 'connection', items: [{ id, name: 'Files', path, exact: true }] }] };

  expect((await admin.call('GET', `/search?q=${id}`)).json).toMatchObject(searchResult);

  await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1_000 }), 'files');
  provider.setModes({ responses: { refresh: status(400, { error: 'invalid_grant' }) } });

  expect((await getJson(agent, `${site.url}/threads/current?app=files`)).status).toBe(403);

  provider.setModes();
  expect(await connect()).toBe(id);

  const removal = await admin.call('DELETE', `/connections/${id}`);
  expect(removal).toMatchObject({ status: 200, json: { id, revocation: 'revoked' } });

  const readMessages = () => {
    const messages = receiver.received.map(
      ({ body }) => JSON.parse(body) as { type: string; data: Record<string, unknown> },
    );
    return messages.filter(({ data }) => data.connection === id);
  };
  await until(() => readMessages().length >= 5);
  const messageTypes = readMessages().map(({ type }) => type);

  expect(messageTypes.toSorted()).toEqual([...events, 'connection.created'].toSorted());
  for (const { data } of readMessages()) expect(data).toMatchObject({ userId, app: 'files' });

  const auditedEvents = async () => {
    const { json } = await admin.call('GET', `/audit?q=${id}&limit=50`);
    return (json.items as { event: string }[]).map(({ event }) => event);
  };
  const expected = ['connection.created', 'refresh.failed', 'connection.reconnect_needed', 'connection.recovered'];
  await until(async () => (await auditedEvents()).length >= 7);

  expect((await auditedEvents()).toSorted()).toEqual(
    [...expected, 'connection.created', 'connection.removed', 'revocation.confirmed'].toSorted(),
  );

  const lines = site.logs().map((line) => JSON.parse(line) as { msg: string; connection?: string });
  const loggedMessages = new Set(lines.filter(({ connection }) => connection === id).map(({ msg }) => msg));
  expect([...loggedMessages].toSorted()).toEqual([
    'connection created',
    'connection recovered',
    'connection removed',
    'reconnect needed',
    'refresh ended',
  ]);
});

test('R118 a connection that cannot be read has no id, and keeps its path by user and app', async () => {
  const id = await connect();
  const key = keys.grant(userId, 'files');
  await storage.store.write([{ put: key, value: 'not sealed' }]);

  expect([await readConnection(id), await readConnection(`${userId}.files`)]).toMatchObject([
    404,
    { id: null, cause: 'unreadable' },
  ]);
  expect(await admin.call('DELETE', `/connections/${userId}.files`)).toMatchObject({ status: 200, json: { id: null } });

  // The disconnect could not delete this record, since only the unreadable grant names its id.
  await storage.store.write([{ delete: keys.connectionId(id) }]);
});

test('deleting a user deletes the ids of the connections', async () => {
  provider.signInAs({ sub: 'leaving' });
  const signIn = await attempt(site);
  const { userId: userToDelete } = await sessionOf(site, signIn.agent);
  provider.signInAs(ANN);

  expect((await admin.call('DELETE', `/users/${userToDelete}`)).status).toBe(200);

  const records = (await Array.fromAsync(storage.store.walk())).flat();
  const idRecords = records.filter(({ key }) => kindOf(key) === 'connection-id');
  expect(idRecords.filter(({ value }) => value.includes(userToDelete))).toEqual([]);
});

describe('the record by which an id finds its connection', () => {
  const grant = (id: string) => ({ ...grantOf('u1', PLATFORM), id });
  const spyOnWrites = () => vi.spyOn(storage.store, 'write');
  /** The writes and deletes of records that belong to ids. */
  const idWritesOf = (writes: ReturnType<typeof spyOnWrites>) => {
    const steps = writes.mock.calls.flatMap(([stepsOfWrite]) => stepsOfWrite as Write[]);
    return steps.filter((step) => {
      if ('put' in step) return kindOf(step.put) === 'connection-id';
      return 'delete' in step && kindOf(step.delete) === 'connection-id';
    });
  };

  test('is written once, before the grant, and not by later writes of the same connection', async () => {
    const id = newConnectionId();
    const { grants } = storage;
    const writes = spyOnWrites();

    let version = (await grants.save(grant(id), 0)) ?? 0;
    expect(writes.mock.calls[0]?.[0]).toMatchObject([{ put: keys.connectionId(id) }]);

    for (const accessToken of ['at2', 'at3'])
      version = (await grants.save({ ...grant(id), accessToken }, version)) ?? 0;
    expect(idWritesOf(writes)).toHaveLength(1);
    expect(await grants.findById(id)).toEqual({ userId: 'u1', appId: PLATFORM.id });
    expect(await grants.remove('u1', PLATFORM.id, version)).toBe(true);
    expect(await grants.findById(id)).toBeUndefined();
  });

  test('is deleted with a grant that another process wrote, and stays if the delete comes too late', async () => {
    const id = newConnectionId();
    const version = (await storage.grants.save(grant(id), 0)) ?? 0;
    const otherGrants = createGrantStore({
      store: storage.store,
      sealedJson: createSealedJson(storage.sealer),
      clock: Date.now,
    });

    expect(await otherGrants.remove('u1', PLATFORM.id, version + 1)).toBe(false);
    expect(await otherGrants.findById(id)).toEqual({ userId: 'u1', appId: PLATFORM.id });
    expect(await otherGrants.remove('u1', PLATFORM.id, version)).toBe(true);
    expect(await otherGrants.findById(id)).toBeUndefined();
  });

  test('is removed after a refused write, unless it belongs to an existing connection', async () => {
    const id = newConnectionId();
    const refusedId = newConnectionId();
    const version = (await storage.grants.save(grant(id), 0)) ?? 0;

    expect(await storage.grants.save(grant(refusedId), 0)).toBeUndefined();
    for (const wrongVersion of [0, version + 1])
      expect(await storage.grants.save(grant(id), wrongVersion)).toBeUndefined();
    expect(await storage.grants.findById(refusedId)).toBeUndefined();
    expect(await storage.grants.findById(id)).toEqual({ userId: 'u1', appId: PLATFORM.id });

    await storage.grants.remove('u1', PLATFORM.id, version);
  });

  test('finds nothing if its connection no longer exists', async () => {
    const id = newConnectionId();
    const key = keys.connectionId(id);
    for (const missingConnection of [
      { userId, appId: 'elsewhere' },
      { userId: 'nobody', appId: 'files' },
    ]) {
      await storage.store.write([{ put: key, value: JSON.stringify(missingConnection) }]);
      expect(await readConnection(id)).toBe(404);
      expect((await admin.call('DELETE', `/connections/${id}`)).status).toBe(404);
    }

    expect((await admin.call('GET', `/search?q=${id}`)).json.groups).toEqual([]);

    await storage.store.write([{ delete: key }]);
  });

  test('is read only for well-formed ids', async () => {
    const gets = vi.spyOn(storage.store, 'get');
    for (const text of ['', 'cn', 'cn}', `cn${'x'.repeat(12)}`, `xx${'x'.repeat(11)}`]) {
      expect(await storage.grants.findById(text)).toBeUndefined();
    }
    expect(gets).not.toHaveBeenCalled();
  });
});
