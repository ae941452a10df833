/** Our own signing keys: one set for all processes, published before it signs, kept until its last signature has ended, sealed. */
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
const sealerOf = () => {
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  return createSealer('keys' in parsed ? parsed.keys : []);
};
const sealer = sealerOf();
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

const process = () => createOwnKeys({ store, sealedJson: createSealedJson(sealer), clock });
const kids = async (own: ReturnType<typeof process>) => (await own.publicKeys()).keys.map(({ kid }) => kid);
const sign = (own: ReturnType<typeof process>) => own.sign({ sub: 'u1' }, { typ: 'test+jwt', seconds: 60 });

test('processes that start together agree on one key, and verify what the other signed', async () => {
  const processes = Array.from({ length: 4 }, process);
  const seen = await Promise.all(processes.map(kids));
  expect(new Set(seen.map(String)).size).toBe(1);
  const [first, second] = processes;
  const token = first && (await sign(first));
  expect(await second?.verify(token ?? '', { typ: 'test+jwt' })).toMatchObject({ sub: 'u1' });
});

test('the store holds no private key in the clear, and the published keys are public alone', async () => {
  const record = await store.get(keys.ownKeys);
  expect(sealer.kidOf(record?.value ?? '')).toBe(sealer.sealingKid);
  for (const key of (await process().publicKeys()).keys) {
    expect(Object.keys(key).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y']);
  }
});

test('a key is shown a day before it signs, and the old one until its last signature has ended', async () => {
  const own = process();
  const [old] = await kids(own);
  now += KEY_TIMES.signsMilliseconds - KEY_TIMES.aheadMilliseconds;
  const [, next] = await kids(own);
  expect(next).toBeDefined();
  expect(decodeProtectedHeader(await sign(own)).kid).toBe(old);
  now += KEY_TIMES.aheadMilliseconds;
  const token = await sign(own);
  expect(decodeProtectedHeader(token).kid).toBe(next);
  expect(await kids(own)).toEqual([old, next]);
  now += KEY_TIMES.afterMilliseconds;
  expect(await kids(own)).toEqual([next]);
  expect(await process().verify(token, { typ: 'test+jwt' })).toBeUndefined();
});

test('a rotation by hand shows the next key to every process, once', async () => {
  const [own, other] = [process(), process()];
  const before = await kids(other);
  await own.rotate();
  await other.rotate();
  expect(await kids(own)).toHaveLength(before.length + 1);
  expect(await kids(process())).toEqual(await kids(own));
  now += DAY;
  expect(await other.verify(await sign(own), { typ: 'test+jwt' })).toMatchObject({ sub: 'u1' });
});

test('a key that another process had to make anew is looked for once a token names it', async () => {
  const [own, other] = [process(), process()];
  await kids(other);
  await store.write([{ delete: keys.ownKeys }]);
  const token = await sign(own);
  // Looked for at most once a second, so that invented key ids cost nothing.
  expect(await other.verify(token, { typ: 'test+jwt' })).toBeUndefined();
  now += 1_001;
  expect(await other.verify(token, { typ: 'test+jwt' })).toMatchObject({ sub: 'u1' });
});

test('each published key is listed with when it was made, and with when it signs', async () => {
  const own = process();
  await own.rotate();
  const [signing, next] = (await own.list()).slice(-2);
  expect(signing).toMatchObject({ signs: true });
  expect(next).toMatchObject({ signs: false, signsFrom: (next?.madeAt ?? 0) + DAY });
  const listed = await own.list();
  expect(listed.map(({ kid }) => kid)).toEqual(await kids(own));
  expect(listed.filter(({ signs }) => signs)).toHaveLength(1);
});

test('a process reads the keys again after ten seconds, or where its clock was set back', async () => {
  const [own, other] = [process(), process()];
  now += 40 * DAY;
  await kids(own);
  now += 10_000;
  await kids(other);
  await store.write([{ delete: keys.ownKeys }]);
  now += 9_999;
  const [before] = await kids(other);
  now += 1;
  const [after] = await kids(other);
  expect(after).not.toBe(before);
  await store.write([{ delete: keys.ownKeys }]);
  now -= 1;
  expect(await kids(other)).not.toContain(after);
});

test('keys that have not changed are read without a write', async () => {
  const own = process();
  await kids(own);
  const before = (await store.get(keys.ownKeys))?.version;
  await kids(process());
  expect((await store.get(keys.ownKeys))?.version).toBe(before);
});

test('what another signed, another type, and what has ended is none of ours', async () => {
  const own = process();
  const token = await sign(own);
  expect(await own.verify(token, { typ: 'other+jwt' })).toBeUndefined();
  expect(await own.verify(`${token.slice(0, -6)}AAAAAA`, { typ: 'test+jwt' })).toBeUndefined();
  expect(await own.verify('no token', { typ: 'test+jwt' })).toBeUndefined();
  now += 61_000;
  expect(await own.verify(token, { typ: 'test+jwt' })).toBeUndefined();
});

test('R49 keys that cannot be opened any more are replaced, and it is told', async () => {
  const told: unknown[] = [];
  const sealedJson = createSealedJson(sealerOf());
  const own = createOwnKeys({ store, sealedJson, clock, onReplaced: (cause) => told.push(cause) });
  expect(await kids(own)).toHaveLength(1);
  expect(told).toHaveLength(1);
});
