/** Stored grants over HTTP: sealed, bound to their user, and each lost record costs only one connection. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import { CLIENT_SECRET, getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

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
const thread = (agent: Agent) => getJson(agent, `${site.url}/threads/current`);

async function person(login: string) {
  const { agent } = await signIn(site, login);
  const { userId } = await sessionOf(site, agent);
  const key = keys.grant(userId, 'platform');
  const record = await storage.store.get(key);
  if (!record) throw new Error('Signing in kept no grant.');
  return { agent, key, value: record.value };
}

/** The response to the user once the record cannot be opened. */
async function expectUnreadable(agent: Agent): Promise<void> {
  const { status, json } = await thread(agent);
  expect({ status, ...json }).toMatchObject({
    status: 403,
    code: 'reconnect_needed',
    connectUrl: `${site.url}/connections/platform`,
    detail: expect.stringContaining('cannot be read'),
  });
  expect((await sessionOf(site, agent)).connections[0]).toMatchObject({
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
  const off = site.sandbox.faults.set({
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
  expect((await thread(agent)).status).toBe(200);
  advanceClock(61);
  expect((await thread(agent)).status).toBe(200);
  off();
  expect(tokenResponses).toBe(2);
  expect(canaries.size).toBe(7);
  const { userId } = await sessionOf(site, agent);
  expect([...canaries.values()]).toContain((await storage.readGrant(userId)).refreshToken);

  const files = readdirSync(site.dataDirectory, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const stored = files
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name)).toString('latin1'))
    .join('\n');
  // The search works: it finds ids, which are no secret.
  expect(stored).toContain(userId);
  const logged = site.logs().join('');
  expect(logged).toContain('refresh ended');
  for (const [name, value] of canaries) {
    for (const form of [value, Buffer.from(value).toString('base64url'), encodeURIComponent(value)]) {
      expect(stored.includes(form), `${name} on disk`).toBe(false);
      expect(logged.includes(form), `${name} in the log`).toBe(false);
    }
  }
});

/** Changes a character inside the ciphertext, since not every bit of the last character counts. */
function changedAmid(value: string): string {
  const at = value.length - 60;
  return value.slice(0, at) + (value[at] === 'A' ? 'B' : 'A') + value.slice(at + 1);
}

describe('a record that cannot be opened', () => {
  test.each([
    ['R45: changed by one character', changedAmid],
    [
      'R47: plain text',
      () => JSON.stringify({ accessToken: 'forged', refreshToken: 'forged', scopes: [], account: {} }),
    ],
    ['cut off', (value: string) => value.slice(0, 40)],
    ['empty', () => ''],
  ])('R49: one that is %s costs only that connection, and reconnecting restores it', async (_name, damage) => {
    const damaged = await person('user@example.test');
    const other = await person('second@example.test');
    await storage.store.write([{ put: damaged.key, value: damage(damaged.value) }]);
    await expectUnreadable(damaged.agent);
    expect((await thread(other.agent)).status).toBe(200);
    const again = await signIn(site, 'user@example.test');
    expect((await thread(again.agent)).status).toBe(200);
    expect((await sessionOf(site, damaged.agent)).connections[0]?.health).toBe('active');
  });

  test('R46: exchanged records of two users are both refused, and neither user sees the other’s thread', async () => {
    const first = await person('user@example.test');
    const second = await person('second@example.test');
    await storage.store.write([{ put: first.key, value: second.value }]);
    await storage.store.write([{ put: second.key, value: first.value }]);
    await expectUnreadable(first.agent);
    await expectUnreadable(second.agent);
  });

  test('can be disconnected: the record is deleted, and the revocation is reported as unconfirmed', async () => {
    const { agent, key } = await person('user@example.test');
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

test('a write of another process is seen at once: a cached grant of an older version is not used', async () => {
  const { agent } = await person('user@example.test');
  expect((await thread(agent)).status).toBe(200);
  const { userId } = await sessionOf(site, agent);
  site.sandbox.requests.reset();
  await storage.changeGrant(userId, () => ({ accessToken: 'written-elsewhere' }));
  await thread(agent);
  const [first] = site.sandbox.requests.latest('platform');
  expect(first?.headers.authorization).toBe('Bearer written-elsewhere');
});

test('refuses a save over a version that is no longer stored', async () => {
  const { agent } = await person('user@example.test');
  const { userId } = await sessionOf(site, agent);
  const stored = await storage.grants.loadStored(userId, 'platform');
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  const { grant, version } = stored;
  expect(await storage.grants.save({ ...grant, accessToken: 'first' }, version)).toBeDefined();
  expect(await storage.grants.save({ ...grant, accessToken: 'late' }, version)).toBeUndefined();
  expect(await storage.grants.save({ ...grant, accessToken: 'new' }, 0)).toBeUndefined();
  expect(await storage.grants.remove(userId, 'platform', version)).toBe(false);
  expect((await storage.readGrant(userId)).accessToken).toBe('first');
});
