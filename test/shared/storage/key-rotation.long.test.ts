/** Key rotation in the store: which records are resealed, which are not changed, and when a key can be removed. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { AppError } from '../../../src/shared/errors.ts';
import { checkKeyRing, keysInUse } from '../../../src/shared/storage/key-check.ts';
import { callKeyRoll, respondToKeyRollCall } from '../../../src/shared/storage/key-roll-call.ts';
import { countDue, forgetKey, rotateKeys } from '../../../src/shared/storage/key-rotation.ts';
import { keys, kindOf, SCHEMA, SEALED_KINDS } from '../../../src/shared/storage/keys.ts';
import { createSealer, type Sealer } from '../../../src/shared/storage/sealed.ts';
import { countSealed, sumOf } from '../../../src/shared/storage/sealed-records.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeKey, makeSealer } from '../../support/encryption-keys.ts';
import { advanceClock, resetClock } from '../../support/test-clock.ts';

const [OLD, NEW] = [makeKey('old'), makeKey('new')];
const grantKey = (n: number) => keys.grant(`user${n}`, 'app');
let directory: string;
let store: Store;
let oldSealer: Sealer;
let rotatingSealer: Sealer;
let newSealer: Sealer;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  store = await createSqliteStore({ directory });
  oldSealer = makeSealer(OLD);
  rotatingSealer = makeSealer(NEW, OLD);
  newSealer = makeSealer(NEW);
  await checkKeyRing(store, oldSealer);
});

afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true });
});

async function putSealed(key: string, sealer: Sealer, text = key, lifetimeSeconds?: number): Promise<void> {
  const value = await sealer.seal(text, key);
  await store.write([{ put: key, value, ...(lifetimeSeconds === undefined ? {} : { lifetimeSeconds }) }]);
}

async function openRecord(key: string, sealer: Sealer): Promise<string> {
  return sealer.open((await store.get(key))?.value ?? '', key);
}

const rotate = (target: Store = store) => rotateKeys(target, rotatingSealer, () => undefined);

describe('R48: a rotation', () => {
  test('reseals values of every kind and at any position of a record, and then retires the old key', async () => {
    const grantKeys = Array.from({ length: 700 }, (_, n) => grantKey(n));
    await Promise.all(grantKeys.map((key) => putSealed(key, oldSealer)));
    const nested = 'kind-of-tomorrow:{x}';
    const inner = [await oldSealer.seal('one', nested), await oldSealer.seal('two', nested)];
    const record = { name: 'a..b', list: [inner[0], { deep: inner[1] }], plain: 'eyJhbGciOiJkaXIifQ..not' };
    await store.write([{ put: nested, value: JSON.stringify(record) }]);
    await checkKeyRing(store, rotatingSealer);
    expect(await countDue(store, rotatingSealer)).toBe(701);

    let progress = 0;
    const result = await rotateKeys(store, rotatingSealer, (done) => {
      progress += done;
    });
    expect(result).toEqual({ resealed: 701, unreadable: new Map(), retired: ['old'] });
    expect(progress).toBe(701);

    await checkKeyRing(store, newSealer);
    expect(await Promise.all(grantKeys.map((key) => openRecord(key, newSealer)))).toEqual(grantKeys);

    const resealed = JSON.parse((await store.get(nested))?.value ?? '') as typeof record & {
      list: [string, { deep: string }];
    };
    expect(await newSealer.open(resealed.list[0], nested)).toBe('one');
    expect(await newSealer.open(resealed.list[1].deep, nested)).toBe('two');
    expect({ ...resealed, list: [] }).toEqual({ ...record, list: [] });
  });

  test('changes no record that the new key has sealed or that is not sealed, and no expiry time', async () => {
    await putSealed('grant:{a}:app', rotatingSealer);
    await store.write([{ put: 'plain', value: 'x' }]);
    await putSealed('flash:{t}', oldSealer, 't', 600);
    const versions = async () => [(await store.get('grant:{a}:app'))?.version, (await store.get('plain'))?.version];
    const versionsBefore = await versions();
    expect((await rotate()).resealed).toBe(1);
    expect(await versions()).toEqual(versionsBefore);
    expect(await openRecord('flash:{t}', newSealer)).toBe('t');

    onTestFinished(resetClock);
    advanceClock(601);
    expect(await store.get('flash:{t}')).toBeUndefined();
  });

  test('never overwrites a concurrent write, and reseals its value too', async () => {
    await putSealed(grantKey(1), oldSealer, 'first');
    await putSealed(grantKey(2), oldSealer, 'first');
    await putSealed(grantKey(3), oldSealer, 'first');
    const changedKeys = new Set<string>();
    const storeWithConcurrentWrites: Store = {
      ...store,
      async write(writes, options) {
        const [step] = writes;
        if (step && 'put' in step && step.put.startsWith('grant') && !changedKeys.has(step.put)) {
          changedKeys.add(step.put);
          // A process with the old key refreshes one grant, a process with the new key another, and one is
          // disconnected.
          if (step.put === grantKey(1)) await putSealed(step.put, oldSealer, 'second');
          else if (step.put === grantKey(2)) await putSealed(step.put, rotatingSealer, 'second');
          else await store.write([{ delete: step.put }]);
        }
        return store.write(writes, options);
      },
    };
    expect((await rotate(storeWithConcurrentWrites)).resealed).toBe(1);
    expect(await openRecord(grantKey(1), newSealer)).toBe('second');
    expect(await openRecord(grantKey(2), newSealer)).toBe('second');
    expect(await store.get(grantKey(3))).toBeUndefined();
  });

  test('finds a record that was sealed with the old key during the rotation', async () => {
    for (let n = 0; n < 40; n += 1) await putSealed(grantKey(n), oldSealer);
    const late = keys.grant('aaa', 'app');
    let first = true;
    const result = await rotateKeys(store, rotatingSealer, () => {
      if (first) void putSealed(late, oldSealer, 'late');
      first = false;
    });
    expect(result.resealed).toBe(41);
    expect(await openRecord(late, newSealer)).toBe('late');
  });

  test('retires no key while a process seals with another key', async () => {
    await putSealed(grantKey(1), oldSealer);
    const conflict = new AppError('version_conflict');
    const refuse = () => Promise.reject(conflict);
    await expect(rotateKeys(store, rotatingSealer, () => undefined, refuse)).rejects.toBe(conflict);
    expect(await keysInUse(store)).toContain('old');
    expect(await openRecord(grantKey(1), newSealer)).toBe(grantKey(1));
  });

  test('continues after the store was unavailable', async () => {
    for (let n = 0; n < 40; n += 1) await putSealed(grantKey(n), oldSealer);
    let failures = 3;
    const storeThatFailsAtFirst: Store = {
      ...store,
      async write(writes, options) {
        if (failures-- > 0) throw new AppError('storage_unavailable');
        return store.write(writes, options);
      },
    };
    expect((await rotate(storeThatFailsAtFirst)).resealed).toBe(40);
  });

  test('retires the old key even if every call of its last steps fails once, before or after the write', async () => {
    await putSealed(grantKey(1), oldSealer);
    for (const isDone of [false, true]) {
      const failed = new Set<string>();
      const isFirst = (call: string) => !failed.has(call) && failed.add(call);
      const storeThatFailsOnce: Store = {
        ...store,
        async page(index, options) {
          if (isFirst(`page ${index}`)) throw new AppError('storage_unavailable');
          return store.page(index, options);
        },
        async write(writes, options) {
          const fails = isFirst(`write ${writes.map((step) => Object.values(step)[0])}`);
          const version = isDone || !fails ? await store.write(writes, options) : undefined;
          if (fails) throw new AppError('storage_unavailable');
          return version;
        },
      };
      const sealer = isDone ? makeSealer(OLD, NEW) : rotatingSealer;
      const result = await rotateKeys(storeThatFailsOnce, sealer, () => undefined);
      expect([isDone, result.retired, await keysInUse(store)]).toEqual([
        isDone,
        [isDone ? 'new' : 'old'],
        [isDone ? 'old' : 'new'],
      ]);
    }
  });

  test('reports records that no key opens, does not change them, and still retires the old key', async () => {
    await putSealed(grantKey(1), oldSealer);
    const foreign = await oldSealer.seal('x', 'grant:{another}:app');
    const damaged = (await oldSealer.seal('x', grantKey(3))).replace(/.(?=.{9}$)/, (char) =>
      char === 'A' ? 'B' : 'A',
    );
    await store.write([{ put: grantKey(2), value: foreign }]);
    await store.write([{ put: grantKey(3), value: damaged }]);
    const result = await rotate();
    expect(result).toEqual({ resealed: 1, unreadable: new Map([['grant', 2]]), retired: ['old'] });
    expect((await store.get(grantKey(2)))?.value).toBe(foreign);
    expect((await store.get(grantKey(3)))?.value).toBe(damaged);

    await checkKeyRing(store, newSealer);
  });
});

describe('R48: a key that still seals a record', () => {
  test('is required at the start, which reports the number of records of each kind', async () => {
    for (let n = 0; n < 1_234; n += 1) await putSealed(grantKey(n), oldSealer);
    await putSealed('flash:{t}', oldSealer);
    await checkKeyRing(store, rotatingSealer);
    await expect(checkKeyRing(store, newSealer)).rejects.toThrow(
      /^The key "old", which ENCRYPTION_KEYS does not hold, still seals 1,235 records \(flash: 1, grant: 1,234\)/,
    );
  });

  test('is also required if it was not the first key of the store, until a rotation after its records are gone', async () => {
    await checkKeyRing(store, rotatingSealer);
    await putSealed(grantKey(1), rotatingSealer);
    await expect(checkKeyRing(store, oldSealer)).rejects.toThrow(/"new".*still seals 1 records/);

    await store.write([{ delete: grantKey(1) }]);
    // Another process may be about to seal with it.
    await expect(checkKeyRing(store, oldSealer)).rejects.toThrow(/"new".*is still in use.*keys rotate/);

    await rotateKeys(store, makeSealer(OLD, NEW), () => undefined);
    await checkKeyRing(store, oldSealer);
    expect(await keysInUse(store)).toEqual(['old']);
  });

  test('a running process reports its keys until it ends', async () => {
    const other = await createSqliteStore({ directory });
    await respondToKeyRollCall(other, rotatingSealer);
    await expect
      .poll(() => callKeyRoll(store))
      .toEqual([{ encryptsWith: 'new', decryptsWith: ['new', 'old'], schema: SCHEMA.version }]);

    await other.close();
    expect(await callKeyRoll(store)).toEqual([]);
  });

  test('a store that delivers no messages is unavailable, not without running processes', async () => {
    const storeWithoutMessages: Store = { ...store, publish: async () => undefined };
    await expect(callKeyRoll(storeWithoutMessages)).rejects.toMatchObject({ code: 'storage_unavailable' });
  });

  test('a start with all keys reads no records', async () => {
    await putSealed(grantKey(1), oldSealer);
    await checkKeyRing(store, rotatingSealer);
    const storeWithoutWalk: Store = {
      ...store,
      walk: () => {
        throw new Error('All records were read.');
      },
    };
    await checkKeyRing(storeWithoutWalk, rotatingSealer);
  });

  test('another key with the id of an older key is refused', async () => {
    await checkKeyRing(store, rotatingSealer);
    await expect(checkKeyRing(store, makeSealer(NEW, makeKey('old')))).rejects.toMatchObject({
      cause: { reason: 'damaged' },
    });
  });
});

describe('F19: a key that is lost', () => {
  test('can be given up: records that are created again are deleted, the others stay, and the start succeeds', async () => {
    await putSealed(grantKey(1), oldSealer);
    await putSealed(keys.ownKeys, oldSealer);
    await putSealed('flash:{t}', oldSealer);
    await expect(checkKeyRing(store, newSealer)).rejects.toThrow(/keys forget old/);

    await checkKeyRing(store, newSealer, ['old']);
    await forgetKey(store, newSealer, 'old');
    expect(await store.get(keys.ownKeys)).toBeUndefined();
    expect(await store.get('flash:{t}')).toBeUndefined();
    await expect(openRecord(grantKey(1), newSealer)).rejects.toMatchObject({ reason: 'unknown_key' });

    await checkKeyRing(store, newSealer);
    expect(sumOf((await countSealed(store, newSealer)).get('old'))).toBe(1);
  });
});

describe('the list of sealed kinds', () => {
  test('is complete: a kind that is not in it cannot be sealed', async () => {
    const sealer = createSealer([NEW], Object.keys(SEALED_KINDS));
    await expect(sealer.seal('x', 'kind-of-tomorrow:{x}')).rejects.toThrow(/"kind-of-tomorrow".*SEALED_KINDS/);
    expect(await sealer.open(await sealer.seal('x', grantKey(1)), grantKey(1))).toBe('x');
  });

  test('uses the first word of a key as its kind', () => {
    expect(['key-check', 'key-check:k1', 'grant:{u}:a', '{x}:y', ''].map(kindOf)).toEqual([
      'key-check',
      'key-check',
      'grant',
      '',
      '',
    ]);
  });
});
