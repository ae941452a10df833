import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkKeyRing, resealKeyCheck, retireKey } from '../../../src/shared/storage/key-check.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { StorageRefused } from '../../../src/shared/storage/refused.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeKey, makeSealer } from '../../support/encryption-keys.ts';

let directory: string;
let store: Store;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  store = await createSqliteStore({ directory });
});

afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true });
});

describe('R49: at start', () => {
  test('any keys are accepted for a new store, and the same keys later', async () => {
    const key = makeKey('k1');
    await checkKeyRing(store, makeSealer(key));
    const version = (await store.get(keys.keyCheck))?.version;
    await checkKeyRing(store, makeSealer(key));
    expect((await store.get(keys.keyCheck))?.version).toBe(version);
  });

  test('a missing key is refused, with its id and the remedy', async () => {
    await checkKeyRing(store, makeSealer(makeKey('k1')));
    const checking = checkKeyRing(store, makeSealer(makeKey('k2')));
    await expect(checking).rejects.toBeInstanceOf(StorageRefused);
    await expect(checking).rejects.toThrow(/"k1".*is still in use.*Put the former key back/);
  });

  test('another key with the same id is refused', async () => {
    await checkKeyRing(store, makeSealer(makeKey('k1')));
    const checking = checkKeyRing(store, makeSealer(makeKey('k1')));
    await expect(checking).rejects.toMatchObject({ name: 'StorageRefused', cause: { reason: 'damaged' } });
  });

  test('an overwritten sentinel is refused and not replaced', async () => {
    const sealer = makeSealer();
    await checkKeyRing(store, sealer);
    await store.write([{ put: keys.keyCheck, value: 'plain' }]);
    await expect(checkKeyRing(store, sealer)).rejects.toMatchObject({ cause: { reason: 'not_sealed' } });
    expect((await store.get(keys.keyCheck))?.value).toBe('plain');
  });

  test('one of two simultaneous first starts with different keys is refused', async () => {
    const otherStore = await createSqliteStore({ directory });
    const starts = [
      checkKeyRing(store, makeSealer(makeKey('k1'))),
      checkKeyRing(otherStore, makeSealer(makeKey('k1'))),
    ];
    const results = await Promise.allSettled(starts);
    await otherStore.close();
    expect(results.map((result) => result.status).toSorted()).toEqual(['fulfilled', 'rejected']);
  });

  test('a first start is checked against the sentinel of another start that came first', async () => {
    let isOvertaken = false;
    const slowStore: Store = {
      ...store,
      async get(key) {
        const record = await store.get(key);
        if (!isOvertaken) {
          isOvertaken = true;
          await checkKeyRing(store, makeSealer(makeKey('k1')));
        }
        return record;
      },
    };
    await expect(checkKeyRing(slowStore, makeSealer(makeKey('k2')))).rejects.toMatchObject({
      cause: { reason: 'unknown_key' },
    });
  });

  test('many simultaneous first starts with the same keys are accepted', async () => {
    const otherStore = await createSqliteStore({ directory });
    const sealer = makeSealer();
    await Promise.all(Array.from({ length: 10 }, (_, n) => checkKeyRing(n % 2 ? store : otherStore, sealer)));
    await otherStore.close();
  });
});

describe('R48: a rotation', () => {
  test('requires the old key until every record is resealed, and not after that', async () => {
    const [oldKey, newKey] = [makeKey('old'), makeKey('new')];
    await checkKeyRing(store, makeSealer(oldKey));
    await checkKeyRing(store, makeSealer(newKey, oldKey));
    await expect(checkKeyRing(store, makeSealer(newKey))).rejects.toThrow(/"old".*is still in use/);

    await resealKeyCheck(store, makeSealer(newKey, oldKey));
    await retireKey(store, 'old');
    await checkKeyRing(store, makeSealer(newKey));
    await expect(checkKeyRing(store, makeSealer(oldKey))).rejects.toThrow(/"new".*is still in use/);
  });

  test('is refused if two processes have different new keys with one id', async () => {
    const oldKey = makeKey('old');
    await checkKeyRing(store, makeSealer(oldKey));
    await checkKeyRing(store, makeSealer(makeKey('new'), oldKey));
    await expect(checkKeyRing(store, makeSealer(makeKey('new'), oldKey))).rejects.toMatchObject({
      cause: { reason: 'damaged' },
    });
  });
});
