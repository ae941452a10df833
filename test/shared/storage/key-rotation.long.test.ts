/** Key rotation in the store: which records are resealed, which are not changed, and when a key can be dropped. */
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
let before: Sealer;
let during: Sealer;
let after: Sealer;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
  store = await createSqliteStore({ directory });
  [before, during, after] = [makeSealer(OLD), makeSealer(NEW, OLD), makeSealer(NEW)];
  await checkKeyRing(store, before);
});

afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true });
});

async function put(key: string, sealer: Sealer, text = key, lifetimeSeconds?: number): Promise<void> {
  const value = await sealer.seal(text, key);
  await store.write([{ put: key, value, ...(lifetimeSeconds === undefined ? {} : { lifetimeSeconds }) }]);
}

async function opened(key: string, sealer: Sealer): Promise<string> {
  return sealer.open((await store.get(key))?.value ?? '', key);
}

const rotate = (target: Store = store) => rotateKeys(target, during, () => undefined);

describe('R48: a rotation', () => {
  test('reseals values of every kind and at any position of a record, and then retires the old key', async () => {
    const many = Array.from({ length: 700 }, (_, n) => grantKey(n));
    await Promise.all(many.map((key) => put(key, before)));
    const nested = 'kind-of-tomorrow:{x}';
    const inner = [await before.seal('one', nested), await before.seal('two', nested)];
    const record = { name: 'a..b', list: [inner[0], { deep: inner[1] }], plain: 'eyJhbGciOiJkaXIifQ..not' };
    await store.write([{ put: nested, value: JSON.stringify(record) }]);
    await checkKeyRing(store, during);
    expect(await countDue(store, during)).toBe(701);

    let progress = 0;
    const result = await rotateKeys(store, during, (done) => {
      progress += done;
    });
    expect(result).toEqual({ resealed: 701, unreadable: new Map(), retired: ['old'] });
    expect(progress).toBe(701);

    await checkKeyRing(store, after);
    expect(await Promise.all(many.map((key) => opened(key, after)))).toEqual(many);

    const resealed = JSON.parse((await store.get(nested))?.value ?? '') as typeof record & {
      list: [string, { deep: string }];
    };
    expect(await after.open(resealed.list[0], nested)).toBe('one');
    expect(await after.open(resealed.list[1].deep, nested)).toBe('two');
    expect({ ...resealed, list: [] }).toEqual({ ...record, list: [] });
  });

  test('changes no record that the new key has sealed or that is not sealed, and no expiry time', async () => {
    await put('grant:{a}:app', during);
    await store.write([{ put: 'plain', value: 'x' }]);
    await put('flash:{t}', before, 't', 600);
    const versions = async () => [(await store.get('grant:{a}:app'))?.version, (await store.get('plain'))?.version];
    const old = await versions();
    expect((await rotate()).resealed).toBe(1);
    expect(await versions()).toEqual(old);
    expect(await opened('flash:{t}', after)).toBe('t');

    onTestFinished(resetClock);
    advanceClock(601);
    expect(await store.get('flash:{t}')).toBeUndefined();
  });

  test('never overwrites a concurrent write, and reseals its value too', async () => {
    await put(grantKey(1), before, 'first');
    await put(grantKey(2), before, 'first');
    await put(grantKey(3), before, 'first');
    const changedKeys = new Set<string>();
    const busy: Store = {
      ...store,
      async write(writes, options) {
        const [step] = writes;
        if (step && 'put' in step && step.put.startsWith('grant') && !changedKeys.has(step.put)) {
          changedKeys.add(step.put);
          // A process with the old key refreshes one grant, a process with the new key another, and one is
          // disconnected.
          if (step.put === grantKey(1)) await put(step.put, before, 'second');
          else if (step.put === grantKey(2)) await put(step.put, during, 'second');
          else await store.write([{ delete: step.put }]);
        }
        return store.write(writes, options);
      },
    };
    expect((await rotate(busy)).resealed).toBe(1);
    expect(await opened(grantKey(1), after)).toBe('second');
    expect(await opened(grantKey(2), after)).toBe('second');
    expect(await store.get(grantKey(3))).toBeUndefined();
  });

  test('finds a record that was sealed with the old key during the rotation', async () => {
    for (let n = 0; n < 40; n += 1) await put(grantKey(n), before);
    const late = keys.grant('aaa', 'app');
    let first = true;
    const result = await rotateKeys(store, during, () => {
      if (first) void put(late, before, 'late');
      first = false;
    });
    expect(result.resealed).toBe(41);
    expect(await opened(late, after)).toBe('late');
  });

  test('retires no key while a process seals with another key', async () => {
    await put(grantKey(1), before);
    const conflict = new AppError('version_conflict');
    const refuse = () => Promise.reject(conflict);
    await expect(rotateKeys(store, during, () => undefined, refuse)).rejects.toBe(conflict);
    expect(await keysInUse(store)).toContain('old');
    expect(await opened(grantKey(1), after)).toBe(grantKey(1));
  });

  test('continues after the store was unavailable', async () => {
    for (let n = 0; n < 40; n += 1) await put(grantKey(n), before);
    let failures = 3;
    const shaky: Store = {
      ...store,
      async write(writes, options) {
        if (failures-- > 0) throw new AppError('storage_unavailable');
        return store.write(writes, options);
      },
    };
    expect((await rotate(shaky)).resealed).toBe(40);
  });

  test('retires the old key even if every call of its last steps fails once, before or after the write', async () => {
    await put(grantKey(1), before);
    for (const isDone of [false, true]) {
      const failed = new Set<string>();
      const isFirst = (call: string) => !failed.has(call) && failed.add(call);
      const fitful: Store = {
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
      const sealer = isDone ? makeSealer(OLD, NEW) : during;
      const result = await rotateKeys(fitful, sealer, () => undefined);
      expect([isDone, result.retired, await keysInUse(store)]).toEqual([
        isDone,
        [isDone ? 'new' : 'old'],
        [isDone ? 'old' : 'new'],
      ]);
    }
  });

  test('reports records that no key opens, does not change them, and still retires the old key', async () => {
    await put(grantKey(1), before);
    const foreign = await before.seal('x', 'grant:{another}:app');
    const damaged = (await before.seal('x', grantKey(3))).replace(/.(?=.{9}$)/, (char) => (char === 'A' ? 'B' : 'A'));
    await store.write([{ put: grantKey(2), value: foreign }]);
    await store.write([{ put: grantKey(3), value: damaged }]);
    const result = await rotate();
    expect(result).toEqual({ resealed: 1, unreadable: new Map([['grant', 2]]), retired: ['old'] });
    expect((await store.get(grantKey(2)))?.value).toBe(foreign);
    expect((await store.get(grantKey(3)))?.value).toBe(damaged);

    await checkKeyRing(store, after);
  });
});

describe('R48: a key that still seals a record', () => {
  test('is required at the start, which reports the number of records of each kind', async () => {
    for (let n = 0; n < 1_234; n += 1) await put(grantKey(n), before);
    await put('flash:{t}', before);
    await checkKeyRing(store, during);
    await expect(checkKeyRing(store, after)).rejects.toThrow(
      /^The key "old", which ENCRYPTION_KEYS does not hold, still seals 1,235 records \(flash: 1, grant: 1,234\)/,
    );
  });

  test('is also required if it was not the first key of the store, until a rotation after its records are gone', async () => {
    await checkKeyRing(store, during);
    await put(grantKey(1), during);
    await expect(checkKeyRing(store, before)).rejects.toThrow(/"new".*still seals 1 records/);

    await store.write([{ delete: grantKey(1) }]);
    // Another process may be about to seal with it.
    await expect(checkKeyRing(store, before)).rejects.toThrow(/"new".*is still in use.*keys rotate/);

    await rotateKeys(store, makeSealer(OLD, NEW), () => undefined);
    await checkKeyRing(store, before);
    expect(await keysInUse(store)).toEqual(['old']);
  });

  test('a running process reports its keys until it ends', async () => {
    const other = await createSqliteStore({ directory });
    await respondToKeyRollCall(other, during);
    await expect
      .poll(() => callKeyRoll(store))
      .toEqual([{ seals: 'new', opens: ['new', 'old'], schema: SCHEMA.version }]);

    await other.close();
    expect(await callKeyRoll(store)).toEqual([]);
  });

  test('a store that delivers no messages is unavailable, not without running processes', async () => {
    const cutOff: Store = { ...store, publish: async () => undefined };
    await expect(callKeyRoll(cutOff)).rejects.toMatchObject({ code: 'storage_unavailable' });
  });

  test('a start with all keys reads no records', async () => {
    await put(grantKey(1), before);
    await checkKeyRing(store, during);
    const unwalked: Store = {
      ...store,
      walk: () => {
        throw new Error('All records were read.');
      },
    };
    await checkKeyRing(unwalked, during);
  });

  test('another key with the id of an older key is refused', async () => {
    await checkKeyRing(store, during);
    await expect(checkKeyRing(store, makeSealer(NEW, makeKey('old')))).rejects.toMatchObject({
      cause: { reason: 'damaged' },
    });
  });
});

describe('F19: a key that is lost', () => {
  test('can be given up: records that are created again are deleted, the others stay, and the start succeeds', async () => {
    await put(grantKey(1), before);
    await put(keys.ownKeys, before);
    await put('flash:{t}', before);
    await expect(checkKeyRing(store, after)).rejects.toThrow(/keys forget old/);

    await checkKeyRing(store, after, ['old']);
    await forgetKey(store, after, 'old');
    expect(await store.get(keys.ownKeys)).toBeUndefined();
    expect(await store.get('flash:{t}')).toBeUndefined();
    await expect(opened(grantKey(1), after)).rejects.toMatchObject({ reason: 'unknown_key' });

    await checkKeyRing(store, after);
    expect(sumOf((await countSealed(store, after)).get('old'))).toBe(1);
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
