/** Our signing keys: one sealed set for all processes, published before they sign and until their signatures expire. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createOwnKeys, KEY_TIMES } from '../../../src/gatehouse/connected-apps/own-keys.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const DAY = 86_400_000;
const directory = mkdtempSync(join(tmpdir(), 'gatehouse-own-keys-'));
const createSealerWithNewKey = () => {
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  return createSealer('keys' in parsed ? parsed.keys : []);
};
const sealer = createSealerWithNewKey();
let store: Store;
let now = Date.parse('2026-11-21T12:00:00Z');
const clock = () => now;
beforeAll(async () => {
  store = await createSqliteStore({ directory });
});
afterAll(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

/** The keys as one process has them; its cache is empty. */
const startProcess = () => createOwnKeys({ store, sealedJson: createSealedJson(sealer), clock });
const kidsOf = async (ownKeys: ReturnType<typeof startProcess>) =>
  (await ownKeys.publicKeys()).keys.map(({ kid }) => kid);
const sign = (ownKeys: ReturnType<typeof startProcess>) =>
  ownKeys.sign({ sub: 'u1' }, { typ: 'test+jwt', seconds: 60 });

test('processes that start together share one key, and verify each other’s signatures', async () => {
  const [first, second, third, fourth] = [startProcess(), startProcess(), startProcess(), startProcess()];
  const kidsOfProcesses = await Promise.all([first, second, third, fourth].map(kidsOf));
  expect(new Set(kidsOfProcesses.map(String)).size).toBe(1);

  const token = await sign(first);
  expect(await second.verify(token, { typ: 'test+jwt' })).toMatchObject({ sub: 'u1' });
});

test('seals private keys in the storage, and publishes only public members', async () => {
  const record = await store.get(keys.ownKeys);
  expect(sealer.kidOf(record?.value ?? '')).toBe(sealer.sealingKid);
  for (const key of (await startProcess().publicKeys()).keys) {
    expect(Object.keys(key).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y']);
  }
});

test('publishes a key a day before it signs, and the old one until its last signature expires', async () => {
  const ownKeys = startProcess();
  const [oldKid] = await kidsOf(ownKeys);

  now += KEY_TIMES.signsMilliseconds - KEY_TIMES.aheadMilliseconds;
  const [, nextKid] = await kidsOf(ownKeys);
  expect(nextKid).toBeDefined();
  expect(decodeProtectedHeader(await sign(ownKeys)).kid).toBe(oldKid);

  now += KEY_TIMES.aheadMilliseconds;
  const token = await sign(ownKeys);
  expect(decodeProtectedHeader(token).kid).toBe(nextKid);
  expect(await kidsOf(ownKeys)).toEqual([oldKid, nextKid]);

  now += KEY_TIMES.afterMilliseconds;
  expect(await kidsOf(ownKeys)).toEqual([nextKid]);
  expect(await startProcess().verify(token, { typ: 'test+jwt' })).toBeUndefined();
});

test('two manual rotations publish one next key, to every process', async () => {
  const [ownKeys, other] = [startProcess(), startProcess()];
  const kidsBeforeRotation = await kidsOf(other);

  await ownKeys.rotate();
  await other.rotate();

  expect(await kidsOf(ownKeys)).toHaveLength(kidsBeforeRotation.length + 1);
  expect(await kidsOf(startProcess())).toEqual(await kidsOf(ownKeys));
  now += DAY;
  expect(await other.verify(await sign(ownKeys), { typ: 'test+jwt' })).toMatchObject({ sub: 'u1' });
});

test('reads the keys again if a token names an unknown key', async () => {
  const [ownKeys, other] = [startProcess(), startProcess()];
  await kidsOf(other);
  await store.write([{ delete: keys.ownKeys }]);
  const token = await sign(ownKeys);
  // The keys are read at most once a second, so tokens with made-up key ids cost little.
  expect(await other.verify(token, { typ: 'test+jwt' })).toBeUndefined();
  now += 1_001;
  expect(await other.verify(token, { typ: 'test+jwt' })).toMatchObject({ sub: 'u1' });
});

test('lists each published key with the times of its creation and first signature', async () => {
  const ownKeys = startProcess();
  await ownKeys.rotate();
  const [signing, next] = (await ownKeys.list()).slice(-2);
  expect(signing).toMatchObject({ active: true });
  expect(next).toMatchObject({ active: false, signsFrom: (next?.madeAt ?? 0) + DAY });
  const listed = await ownKeys.list();
  expect(listed.map(({ kid }) => kid)).toEqual(await kidsOf(ownKeys));
  expect(listed.filter(({ active }) => active)).toHaveLength(1);
});

test('reads the keys again after ten seconds, or if the clock was set back', async () => {
  const [ownKeys, other] = [startProcess(), startProcess()];
  now += 40 * DAY;
  await kidsOf(ownKeys);
  now += 10_000;
  await kidsOf(other);
  await store.write([{ delete: keys.ownKeys }]);
  now += 9_999;
  const [cachedKid] = await kidsOf(other);
  now += 1;
  const [newKid] = await kidsOf(other);
  expect(newKid).not.toBe(cachedKid);

  await store.write([{ delete: keys.ownKeys }]);
  now -= 1;
  expect(await kidsOf(other)).not.toContain(newKid);
});

test('reads unchanged keys without a write', async () => {
  await kidsOf(startProcess());
  const recordBeforeRead = await store.get(keys.ownKeys);
  await kidsOf(startProcess());
  expect((await store.get(keys.ownKeys))?.version).toBe(recordBeforeRead?.version);
});

test('refuses a JWT of another signer, of another type, or that has expired', async () => {
  const ownKeys = startProcess();
  const token = await sign(ownKeys);
  expect(await ownKeys.verify(token, { typ: 'other+jwt' })).toBeUndefined();
  expect(await ownKeys.verify(`${token.slice(0, -6)}AAAAAA`, { typ: 'test+jwt' })).toBeUndefined();
  expect(await ownKeys.verify('no token', { typ: 'test+jwt' })).toBeUndefined();
  now += 61_000;
  expect(await ownKeys.verify(token, { typ: 'test+jwt' })).toBeUndefined();
});

test('R49 replaces keys that cannot be opened, and reports it', async () => {
  const reportedCauses: unknown[] = [];
  const sealedJson = createSealedJson(createSealerWithNewKey());
  const ownKeys = createOwnKeys({ store, sealedJson, clock, onReplaced: (cause) => reportedCauses.push(cause) });
  expect(await kidsOf(ownKeys)).toHaveLength(1);
  expect(reportedCauses).toHaveLength(1);
});
