/** F23: refreshes that begin together share one check of the store, which covers all of them. */
import { expect, test } from 'vitest';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';

const KILOBYTE = 1_024;

function createCheckedStore() {
  /** How many kilobytes each check of the store is for. */
  const checks: number[] = [];
  const store = {
    async ready(bytes = 0) {
      checks.push(bytes / KILOBYTE);
    },
  } as Store;
  return { checks, grants: createGrantStore({ store, sealedJson: createSealedJson(makeSealer()), clock: () => 0 }) };
}

test('F23: refreshes that begin in one turn of the event loop share a check; a later refresh has its own', async () => {
  const { checks, grants } = createCheckedStore();
  await Promise.all([1, 2, 3].map(grants.assertWritable));
  await grants.assertWritable(1);

  expect(checks).toEqual([192, 64]);
});

test('F23: a check covers the largest number of refreshes of its callers, at most a hundred', async () => {
  const { checks, grants } = createCheckedStore();
  await Promise.all([3, 100, 2].map(grants.assertWritable));
  await grants.assertWritable(101);

  expect(checks).toEqual([6_400, 6_400]);
});

test('F23: a failed check fails all of its callers', async () => {
  const { grants, checks } = createCheckedStore();
  // The check of the store throws when it adds its entry.
  checks.push = () => {
    throw new Error('full');
  };

  const results = await Promise.allSettled([1, 2].map(grants.assertWritable));
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
});
