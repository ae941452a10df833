/** R6, R9: pending authorization requests: at most 10 per browser, for 10 minutes, taken once, and without secrets. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  createPendingRequests,
  fingerprintOf,
  type PendingRequest,
  type PendingRequests,
} from '../../../src/gatehouse/sign-in/pending-requests.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createReplaceableSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { PLATFORM } from '../../support/apps.ts';
import { makeSealer } from '../../support/encryption-keys.ts';

let directory: string;
let store: Store;
let pendingRequests: PendingRequests;
let now: number;
let sealer: ReturnType<typeof createReplaceableSealer>;
beforeEach(async () => {
  now = 1_800_000_000_000;
  const clock = () => now;
  sealer = createReplaceableSealer(makeSealer());
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-pending-'));
  store = await createSqliteStore({ directory, clock, random: Math.random });
  pendingRequests = createPendingRequests({ store, clock, sealedJson: createSealedJson(sealer), home: '/home' });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const pendingRequest = (n: number): PendingRequest => ({
  purpose: 'sign_in',
  appId: PLATFORM.id,
  appFingerprint: 's',
  attempt: 'a1',
  returnTo: `/${n}`,
  startedAt: now,
});
const put = async (n: number, browser = 'b1') => {
  await pendingRequests.put(browser, `state-${n}`, pendingRequest(n));
  now += 1_000;
};
/** Takes a request. @returns it if it was pending */
const take = async (n: number, browser = 'b1') => {
  const taken = await pendingRequests.take(browser, `state-${n}`);
  return taken?.isSpent === false ? taken.pendingRequest : undefined;
};

test('R6 stores the newest ten of a browser, and counts each browser separately', async () => {
  await put(0, 'b2');
  for (let n = 0; n < 12; n += 1) await put(n);
  expect(await Promise.all([0, 1].map((n) => take(n)))).toEqual([undefined, undefined]);
  for (let n = 2; n < 12; n += 1) expect((await take(n))?.returnTo).toBe(`/${n}`);
  expect((await take(0, 'b2'))?.returnTo).toBe('/0');
});

test('R6 a request expires after ten minutes, even if the browser has started another one', async () => {
  await put(1);
  now += 300_000;
  await put(2);
  now += 299_000;
  expect(await take(1)).toBeUndefined();
  expect(await take(2)).toMatchObject({ returnTo: '/2' });
});

test('R6 a request expires exactly ten minutes after its own start', async () => {
  for (const { wait, isPending } of [
    { wait: 599_999, isPending: true },
    { wait: 600_000, isPending: false },
  ]) {
    const browser = `waits ${wait}`;
    const startedAt = now;
    await put(1, browser);
    await put(2, browser);

    now = startedAt + wait;
    expect((await take(1, browser)) !== undefined).toBe(isPending);
    expect(await take(2, browser)).toBeDefined();
  }
});

test('R6 stores at most ten even if the clock was set back', async () => {
  for (let n = 0; n < 10; n += 1) await put(n);
  now -= 60_000;
  await put(10);
  // It has the oldest time, so the next start displaces it.
  now += 60_000;
  await put(11);
  expect(await Promise.all([0, 10].map((n) => take(n)))).toEqual([undefined, undefined]);
  expect(await take(11)).toMatchObject({ returnTo: '/11' });
});

test('R6 stores a start without its sign-in record if another record has the id', async () => {
  const record = [{ put: 'sign-in:{sign-ins}:a', value: 'record', ifVersion: 0 }];
  for (const n of [1, 2])
    await pendingRequests.put(`b${n}`, `state-${n}`, pendingRequest(n), { isNewBrowser: true, record });
  for (const n of [1, 2]) expect(await take(n, `b${n}`)).toMatchObject({ returnTo: `/${n}` });
});

test('R64 stores both of two simultaneous starts of a new browser', async () => {
  const start = (n: number) => pendingRequests.put('new', `state-${n}`, pendingRequest(n), { isNewBrowser: true });

  await Promise.all([start(1), start(2)]);
  await start(3);
  for (const n of [1, 2, 3]) expect(await take(n, 'new')).toMatchObject({ returnTo: `/${n}` });
});

test('R116 the fingerprint of an app changes with its registration and its scopes', () => {
  const fingerprint = (changes: object = {}) => fingerprintOf({ ...PLATFORM, scopes: ['openid'], ...changes });
  expect(fingerprint({ name: 'Renamed' })).toBe(fingerprint());
  for (const changes of [
    { scopes: ['openid', 'email'] },
    { clientId: 'c2' },
    { issuer: 'https://other.test' },
    { endpoints: { token: 'https://other.test/token' } },
    { apiBaseUrl: 'https://other.test' },
  ])
    expect(fingerprint(changes)).not.toBe(fingerprint());
  expect(fingerprint()).toMatch(/^[\w-]{22}$/);

  // The code and its verifier would go to a host to which neither may be sent.
  for (const role of ['endSession', 'jwks', 'userinfo']) {
    const endpoints = { token: 'https://idp.test/token', [role]: 'https://other.test/' };
    const moved = { ...endpoints, token: 'https://other.test/token' };
    expect(fingerprint({ endpoints: moved })).not.toBe(fingerprint({ endpoints }));
  }
});

test('R9 a request is taken once, even by simultaneous callers, and only by its browser', async () => {
  await put(1);
  await put(2);
  expect(await take(1, 'b2')).toBeUndefined();
  const taken = await Promise.all(Array.from({ length: 20 }, () => take(1)));
  expect(taken.filter((request) => request !== undefined)).toHaveLength(1);
  expect(await take(2)).toBeDefined();
});

test('R10 a spent request is stored for ten minutes, and displaces no pending one', async () => {
  await put(0);
  for (let n = 1; n <= 12; n += 1) {
    await put(n);
    expect(await take(n)).toMatchObject({ returnTo: `/${n}` });
  }

  const findSpent = async (n: number) => {
    const request = await pendingRequests.find('b1', `state-${n}`);
    return request?.isSpent ? request.pendingRequest : undefined;
  };
  expect([await findSpent(0), await findSpent(2)]).toEqual([undefined, undefined]);
  for (let n = 3; n <= 12; n += 1) {
    expect(await findSpent(n)).toMatchObject({ returnTo: `/${n}` });
    expect(await pendingRequests.take('b1', `state-${n}`)).toMatchObject({ isSpent: true });
  }
  expect(await take(0)).toMatchObject({ returnTo: '/0' });

  now += 599_999;
  expect(await findSpent(0)).toMatchObject({ returnTo: '/0' });
  now += 1;
  expect(await findSpent(0)).toBeUndefined();
});

test('R6, R10 what starts over from one callback has one place, and ten of its states can take it', async () => {
  for (let n = 0; n < 9; n += 1) await put(n);
  const startOver = (n: number, attempt: string) =>
    pendingRequests.put('b1', `again-${n}`, { ...pendingRequest(20), attempt, startedOverFrom: 'a0' });
  for (let n = 0; n < 12; n += 1) await startOver(n, `again-${n}`);
  const takeAgain = (n: number) => pendingRequests.take('b1', `again-${n}`);
  expect(await takeAgain(1)).toBeUndefined();
  expect(await takeAgain(2)).toBeUndefined();
  expect(await takeAgain(3)).toMatchObject({ isSpent: false, pendingRequest: { returnTo: '/20', attempt: 'again-0' } });
  for (const n of [0, 4, 11]) expect(await takeAgain(n)).toMatchObject({ isSpent: true });
  for (let n = 0; n < 9; n += 1) expect(await take(n)).toMatchObject({ returnTo: `/${n}` });
  await startOver(12, 'again-12');
  expect(await takeAgain(12)).toMatchObject({ isSpent: false, pendingRequest: { attempt: 'again-12' } });
});

test('R44 seals the paths of connect links, and falls back to the start page if their key is lost', async () => {
  const path = '/connect/gthl_8KqVabcdefgAbCdEfGhIjKlMnOpQrStUvWxYz';
  const signIn: PendingRequest = { ...pendingRequest(1), returnTo: `${path}?prompt=login` };
  const connection: PendingRequest = {
    ...pendingRequest(2),
    purpose: 'connect',
    userId: 'u1',
    link: '8KqVabcdefg',
    linkPath: path,
  };

  for (const isKeyLost of [false, true]) {
    await pendingRequests.put('b1', 'state-1', signIn);
    await pendingRequests.put('b1', 'state-2', connection);
    expect((await store.get(keys.pendingRequests('b1')))?.value).not.toContain('gthl_');
    if (isKeyLost) sealer.replace(makeSealer());
    expect(await take(1)).toEqual({ ...signIn, returnTo: isKeyLost ? '/home' : signIn.returnTo });
    expect(await take(2)).toEqual({ ...connection, linkPath: isKeyLost ? undefined : path });
  }
});
