/** R6, R9: pending authorization requests: bounded in number and time for each browser, taken once, and without a secret. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createTransactions, type Transaction, type Transactions } from '../../src/sign-in/transaction.ts';
import { keys } from '../../src/storage/keys.ts';
import { createReplaceableSealer } from '../../src/storage/sealed.ts';
import { createSealedJson } from '../../src/storage/sealed-json.ts';
import { createSqliteStore } from '../../src/storage/sqlite/store.ts';
import type { Store } from '../../src/storage/store.ts';
import { makeSealer } from '../support/encryption-keys.ts';

let directory: string;
let store: Store;
let transactions: Transactions;
let now: number;
let sealer: ReturnType<typeof createReplaceableSealer>;
beforeEach(async () => {
  now = 1_800_000_000_000;
  const clock = () => now;
  sealer = createReplaceableSealer(makeSealer());
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-pending-'));
  store = await createSqliteStore({ directory, clock, random: Math.random });
  transactions = createTransactions({ store, clock, sealedJson: createSealedJson(sealer), home: '/home' });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const transaction = (n: number): Transaction => ({
  ...{ purpose: 'sign_in', appId: 'platform', registration: 'r', attempt: 'a1' },
  ...{ returnTo: `/${n}`, startedAt: now },
});
const put = async (n: number, browser = 'b1') => {
  await transactions.put(browser, `state-${n}`, transaction(n));
  now += 1_000;
};
const take = (n: number, browser = 'b1') => transactions.take(browser, `state-${n}`);

test('R6 the newest ten of a browser stay, and those of another are its own', async () => {
  await put(0, 'b2');
  for (let n = 0; n < 12; n += 1) await put(n);
  expect(await Promise.all([0, 1].map((n) => take(n)))).toEqual([undefined, undefined]);
  for (let n = 2; n < 12; n += 1) expect((await take(n))?.returnTo).toBe(`/${n}`);
  expect((await take(0, 'b2'))?.returnTo).toBe('/0');
});

test('R6 after ten minutes it is gone, also where the browser began another since', async () => {
  await put(1);
  now += 300_000;
  await put(2);
  now += 299_000;
  expect(await take(1)).toBeUndefined();
  expect(await take(2)).toMatchObject({ returnTo: '/2' });
});

test('R9 it is taken once, however many ask at the same time, and by its browser alone', async () => {
  await put(1);
  await put(2);
  expect(await take(1, 'b2')).toBeUndefined();
  const taken = await Promise.all(Array.from({ length: 20 }, () => take(1)));
  expect(taken.filter((one) => one !== undefined)).toHaveLength(1);
  expect(await take(2)).toBeDefined();
  expect(await store.get(keys.transactions('b1'))).toBeUndefined();
});

test('R44 the paths of connect links are sealed, and without their key the browser goes to the start page', async () => {
  const path = '/connect/gthl_8KqVabcdefgAbCdEfGhIjKlMnOpQrStUvWxYz';
  const [signingIn, connecting]: Transaction[] = [
    { ...transaction(1), returnTo: `${path}?prompt=login` },
    { ...transaction(2), purpose: 'connect', userId: 'u1', link: '8KqVabcdefg', linkPath: path },
  ];
  for (const isKeyLost of [false, true]) {
    await transactions.put('b1', 'state-1', signingIn as Transaction);
    await transactions.put('b1', 'state-2', connecting as Transaction);
    expect((await store.get(keys.transactions('b1')))?.value).not.toContain('gthl_');
    if (isKeyLost) sealer.replace(makeSealer());
    expect(await take(1)).toEqual({ ...signingIn, ...(isKeyLost && { returnTo: '/home' }) });
    expect(await take(2)).toEqual({ ...connecting, linkPath: isKeyLost ? undefined : path });
  }
});
