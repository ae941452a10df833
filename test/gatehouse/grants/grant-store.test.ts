/** Stored grants over HTTP: sealed, bound to their user, and each lost record costs only one connection. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import { CLIENT_SECRET, getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { connectionsOf, openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

type Agent = Awaited<ReturnType<typeof signIn>>['agent'];
const getThread = (agent: Agent) => getJson(agent, `${site.url}/threads/current`);

async function signInAndReadRecord(login: string) {
  const { agent } = await signIn(site, login);
  const { userId } = await sessionOf(site, agent);
  const key = keys.grant(userId, 'platform');
  const record = await storage.store.get(key);
  if (!record) throw new Error('The sign-in stored no grant.');
  return { agent, key, value: record.value };
}

/** Asserts that the user is told to reconnect, since the record cannot be opened, and that the pages work. */
async function expectUnreadable(agent: Agent): Promise<void> {
  const { status, json } = await getThread(agent);
  expect({ status, ...json }).toMatchObject({
    status: 403,
    code: 'reconnect_needed',
    connectUrl: `${site.url}/connections/platform`,
    detail: expect.stringContaining('cannot be read'),
  });
  expect((await connectionsOf(site, agent))[0]).toMatchObject({
    health: 'reconnect_needed',
    cause: 'unreadable',
  });
  for (const path of ['/', '/connections', '/connections/platform']) {
    expect((await agent.get(site.url + path)).status).toBe(200);
  }
}

test('R44: no token and no secret is readable on disk or in the log', async () => {
  const canaries = new Map<string, string>([['client secret', CLIENT_SECRET]]);
  let tokenResponses = 0;
  const stopRewriting = site.sandbox.faults.set({
    listener: 'identity-provider',
    path: '/token',
    kind: 'rewrite',
    change(body) {
      tokenResponses += 1;
      for (const name of ['access_token', 'refresh_token', 'id_token']) {
        if (typeof body[name] === 'string') canaries.set(`${name} ${tokenResponses}`, body[name]);
      }
      return body;
    },
  });
  const { agent } = await signIn(site);

  expect((await getThread(agent)).status).toBe(200);

  advanceClock(61);
  expect((await getThread(agent)).status).toBe(200);

  stopRewriting();
  expect(tokenResponses).toBe(2);
  expect(canaries.size).toBe(7);

  const { userId } = await sessionOf(site, agent);
  expect([...canaries.values()]).toContain((await storage.readGrant(userId)).refreshToken);

  const files = readdirSync(site.dataDirectory, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const textOnDisk = files
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name)).toString('latin1'))
    .join('\n');
  // Ids, which are no secret, are found, so the files are searched correctly.
  expect(textOnDisk).toContain(userId);

  const logText = site.logs().join('');
  expect(logText).toContain('refresh ended');

  for (const [name, value] of canaries) {
    for (const encodedValue of [value, Buffer.from(value).toString('base64url'), encodeURIComponent(value)]) {
      expect(textOnDisk.includes(encodedValue), `${name} on disk`).toBe(false);
      expect(logText.includes(encodedValue), `${name} in the log`).toBe(false);
    }
  }
});

/** Changes a character inside the ciphertext, since not every bit of the last character counts. */
function changeOneCharacter(value: string): string {
  const position = value.length - 60;
  const newCharacter = value[position] === 'A' ? 'B' : 'A';
  return value.slice(0, position) + newCharacter + value.slice(position + 1);
}

describe('a record that cannot be opened', () => {
  test.each([
    ['R45: changed by one character', changeOneCharacter],
    [
      'R47: plain text',
      () => JSON.stringify({ accessToken: 'forged', refreshToken: 'forged', scopes: [], account: {} }),
    ],
    ['cut off', (value: string) => value.slice(0, 40)],
    ['empty', () => ''],
  ])('R49: that is %s affects only its own connection, and reconnecting restores that', async (_name, damageRecord) => {
    const damaged = await signInAndReadRecord('user@example.test');
    const other = await signInAndReadRecord('second@example.test');
    await storage.store.write([{ put: damaged.key, value: damageRecord(damaged.value) }]);
    await expectUnreadable(damaged.agent);

    expect((await getThread(other.agent)).status).toBe(200);

    const nextSignIn = await signIn(site, 'user@example.test');
    expect((await getThread(nextSignIn.agent)).status).toBe(200);
    expect((await connectionsOf(site, damaged.agent))[0]?.health).toBe('active');
  });

  test('R46: that belongs to another user is refused, and neither user sees the thread of the other', async () => {
    const first = await signInAndReadRecord('user@example.test');
    const second = await signInAndReadRecord('second@example.test');
    await storage.store.write([{ put: first.key, value: second.value }]);
    await storage.store.write([{ put: second.key, value: first.value }]);
    await expectUnreadable(first.agent);
    await expectUnreadable(second.agent);
  });

  test('can be disconnected: the record is deleted, and the revocation is reported as unconfirmed', async () => {
    const { agent, key } = await signInAndReadRecord('user@example.test');
    await storage.store.write([{ put: key, value: 'not sealed' }]);
    const { csrfToken } = await sessionOf(site, agent);

    const page = await agent.request(`${site.url}/connections/platform/disconnect`, {
      method: 'POST',
      headers: { accept: 'application/json' },
      body: new URLSearchParams({ _csrf: csrfToken }),
    });
    expect(JSON.parse(page.body)).toMatchObject({ disconnected: true, revocation: 'unconfirmed' });
    expect(await storage.store.get(key)).toBeUndefined();
  });
});

test('a grant that another process has written is used at once, instead of the cached one', async () => {
  const { agent } = await signInAndReadRecord('user@example.test');
  expect((await getThread(agent)).status).toBe(200);

  const { userId } = await sessionOf(site, agent);
  site.sandbox.requests.reset();
  await storage.changeGrant(userId, () => ({ accessToken: 'written-elsewhere' }));
  await getThread(agent);
  const [platformRequest] = site.sandbox.requests.latest('platform');

  expect(platformRequest?.headers.authorization).toBe('Bearer written-elsewhere');
});

test('a save or removal of a version that is no longer stored is refused', async () => {
  const { agent } = await signInAndReadRecord('user@example.test');
  const { userId } = await sessionOf(site, agent);
  const storedGrant = await storage.grants.loadStored(userId, 'platform');
  if (!storedGrant || 'unreadable' in storedGrant) throw new Error('There is no grant.');
  const { grant, version } = storedGrant;

  expect(await storage.grants.save({ ...grant, accessToken: 'first' }, version)).toBeDefined();
  expect(await storage.grants.save({ ...grant, accessToken: 'late' }, version)).toBeUndefined();
  expect(await storage.grants.save({ ...grant, accessToken: 'new' }, 0)).toBeUndefined();
  expect(await storage.grants.remove(userId, 'platform', version)).toBe(false);
  expect((await storage.readGrant(userId)).accessToken).toBe('first');
});
