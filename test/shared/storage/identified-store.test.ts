/** R126: the check of the store's identity, with a fake store. */
import { beforeEach, expect, test } from 'vitest';
import { identifyStore } from '../../../src/shared/storage/identified-store.ts';
import { StorageRefused } from '../../../src/shared/storage/refused.ts';
import { StorageReplaced } from '../../../src/shared/storage/replaced.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

let identity: string | undefined;
let unfitReason: string | undefined;
let missingReason: string | undefined;
let failedOver: boolean;
let sentCommands: string[];
let failovers: number;
/** The next reads of the identity wait for this. */
let pause: Promise<void>;

beforeEach(() => {
  identity = 'own';
  unfitReason = undefined;
  missingReason = undefined;
  failedOver = false;
  sentCommands = [];
  failovers = 0;
  pause = Promise.resolve();
});

const recordCall =
  <T>(name: string, result: T) =>
  async (): Promise<T> => {
    sentCommands.push(name);
    return result;
  };

function createIdentifiedStore() {
  const store: Partial<Store> = {
    async get(key) {
      if (key !== 'schema') return recordCall('get', key === 'there' ? { value: 'v', version: 1 } : undefined)();
      const storedIdentity = identity;
      await pause;
      return storedIdentity === undefined
        ? undefined
        : { value: JSON.stringify({ identity: storedIdentity }), version: 1 };
    },
    async admit() {
      if (unfitReason) throw new StorageRefused(unfitReason);
      return { failedOver };
    },
    async ready() {
      if (missingReason) throw new StorageReplaced(missingReason);
      sentCommands.push('ready');
    },
    acquireLease: recordCall('acquireLease', 1),
    increment: recordCall('increment', 1),
    append: recordCall('append', ['1']),
    publish: recordCall('publish', undefined),
    async *walk() {
      yield [{ key: 'one', value: 'v', version: 1 }];
      yield [{ key: 'two', value: 'v', version: 1 }];
    },
    close: recordCall('close', undefined),
  };
  const onFailover = () => {
    failovers += 1;
  };
  return identifyStore({ store: store as Store, identity: 'own', onFailover });
}

const REPLACED = { name: 'StorageReplaced', code: 'storage_unavailable', status: 503 };
const UNFIT = { name: 'StorageUnfit', code: 'storage_unavailable', logDetail: 'may evict' };

const callsOf = (store: Store): Promise<unknown>[] => [
  store.get('there'),
  store.acquireLease('l', 'o', 1),
  store.increment('c', 1, { lifetimeSeconds: 1 }),
  store.append('log', [{ entry: 'entry', at: 1 }]),
  store.publish('channel', 'message'),
  store.ready(64),
  Array.fromAsync(store.walk()),
];

test.each([
  ['of another identity', () => (identity = 'other'), REPLACED],
  ['that is empty', () => (identity = undefined), REPLACED],
  ['that is unfit', () => (unfitReason = 'may evict'), UNFIT],
  ['whose file is gone', () => (missingReason = 'the file is gone'), REPLACED],
])(
  'R126 refuses every method of a store %s after the probe, until the store is the same and fit again',
  async (_name, lose, error) => {
    const { store } = createIdentifiedStore();
    await store.ready();
    lose();
    await expect(store.ready()).rejects.toMatchObject(error);

    sentCommands = [];
    for (const use of callsOf(store)) await expect(use).rejects.toMatchObject(error);
    expect(sentCommands).toEqual([]);

    await store.close();
    identity = 'own';
    unfitReason = undefined;
    missingReason = undefined;
    await expect(store.get('there')).rejects.toMatchObject(error);

    await store.ready();
    await Promise.all(callsOf(store));
  },
);

test('R126 a missing record is reported only if the store is the same', async () => {
  const { store } = createIdentifiedStore();
  expect(await store.get('missing')).toBeUndefined();

  identity = undefined;
  await expect(store.get('missing')).rejects.toMatchObject(REPLACED);
  await expect(store.get('there')).rejects.toMatchObject(REPLACED);
});

test('R126 after a reconnect, no command is sent before the identity of the store is checked', async () => {
  const { store, reconnected } = createIdentifiedStore();
  await store.ready();
  sentCommands = [];
  let resume = () => {};
  pause = new Promise((resolve) => {
    resume = resolve;
  });
  reconnected();
  const read = store.get('there');
  await new Promise((resolve) => setImmediate(resolve));
  expect(sentCommands).toEqual([]);

  // The connection is lost again, and leads to another store.
  reconnected();
  identity = 'other';
  resume();
  await expect(read).rejects.toMatchObject(REPLACED);
  expect(sentCommands).toEqual([]);
});

test('R126 the result of a check that ends after a later check is ignored', async () => {
  const { store } = createIdentifiedStore();
  let resume = () => {};
  pause = new Promise((resolve) => {
    resume = resolve;
  });
  const earlierCheck = store.ready();
  pause = Promise.resolve();
  identity = 'other';
  await expect(store.ready()).rejects.toMatchObject(REPLACED);

  resume();
  await earlierCheck;
  await expect(store.get('there')).rejects.toMatchObject(REPLACED);
});

test('a failover is reported once', async () => {
  const { store } = createIdentifiedStore();
  failedOver = true;
  await store.ready();
  expect(failovers).toBe(1);
});
