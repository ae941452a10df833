/** R51: which writes are on disk before they are acknowledged. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createRecordStore } from '../../../../src/gatehouse/sign-in-record/record-store.ts';
import { createUserStore } from '../../../../src/gatehouse/users/user-store.ts';
import { createUserLifecycle } from '../../../../src/gatehouse/users/users.ts';
import { keys, RELAXED_KINDS } from '../../../../src/shared/storage/keys.ts';
import { openDatabase } from '../../../../src/shared/storage/sqlite/database.ts';
import { createSqliteStore } from '../../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../../src/shared/storage/store.ts';
import { appendTo } from '../../../support/append-to.ts';

const RETRY = { deadlineMilliseconds: 1_000, random: Math.random };

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-durability-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

test('a store that is not durable never waits for the disk', async () => {
  const database = await openDatabase(join(directory, 'not-durable.sqlite'), RETRY, false);
  expect(database.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 0 });

  database.close();
  const flushes = vi.fn();
  const observer = { flushed: flushes, flushedSlowly: flushes, checkpointFailed: flushes, logBytes: () => undefined };
  const store = await createSqliteStore({ directory: join(directory, 'not-durable'), durable: false, observer });
  await store.write([{ put: keys.grant('u', 'app'), value: 'x' }]);
  await store.close();
  expect(flushes).not.toHaveBeenCalled();
});

describe('the store', () => {
  let store: Store;
  let flushes = 0;
  beforeAll(async () => {
    const nothing = () => undefined;
    const observer = { flushedSlowly: nothing, checkpointFailed: nothing, logBytes: nothing };
    const flushed = (_seconds: number, by: string) => {
      if (by === 'flush') flushes += 1;
    };
    // A sweep of expired records is a write, too, and could be in the same transaction.
    store = await createSqliteStore({ directory, sweepMilliseconds: 3_600_000, observer: { ...observer, flushed } });
  });
  afterAll(() => store.close());

  /** `FULL` if the write waited for a flush, otherwise `NORMAL`, after durable and after relaxed writes. */
  const levelOf = async (write: () => Promise<unknown>): Promise<string> => {
    const levels: string[] = [];
    const [durable, relaxed] = [keys.grant('u', 'app'), keys.lastUse('u', 'app')];
    for (const earlierKeys of [
      [durable, relaxed],
      [relaxed, durable],
    ]) {
      for (const put of earlierKeys) await store.write([{ put, value: 'x' }]);
      const flushesBefore = flushes;
      await write();
      levels.push(flushes > flushesBefore ? 'FULL' : 'NORMAL');
    }
    expect(new Set(levels).size).toBe(1);
    return levels[0] ?? '';
  };

  test('relaxes only these kinds; before you add one, consider a power cut', () => {
    expect([...RELAXED_KINDS].toSorted()).toEqual([
      'awaited-refresh',
      'connection-id',
      'kept-form',
      'last-use',
      'limit',
      'live-sessions',
      'narrowing',
      'pending-requests',
      'plan-use',
      'problem',
      'relay-uses',
      'relay-uses-of',
      'sign-in',
      'sign-in-alias',
      'sign-in-return',
      'sign-ins',
    ]);
  });

  test.each([...RELAXED_KINDS])('acknowledges a write before it is on disk: %s', async (kind) => {
    expect(await levelOf(() => store.write([{ put: `${kind}:{t}:record`, value: 'x' }]))).toBe('NORMAL');
    expect(await levelOf(() => store.write([{ delete: `${kind}:{t}:record` }]))).toBe('NORMAL');
    expect(await levelOf(() => store.write([{ index: `${kind}:{t}:index`, add: 'x', score: 1 }]))).toBe('NORMAL');
    expect(await levelOf(() => store.increment(`${kind}:{t}:count`, 1, { lifetimeSeconds: 9 }))).toBe('NORMAL');
  });

  test.each([
    keys.grant('u', 'app'),
    keys.session('h'),
    keys.sessionsOfUser('u'),
    keys.user('u'),
    keys.connectedApp('app'),
    keys.relayToken('r'),
    keys.adminToken('a'),
    keys.revocation('u', 'r'),
    keys.webhook('w'),
    keys.ownKeys,
    keys.logoutToken('issuer', 'jti'),
  ])('acknowledges a write only when it is on disk: %s', async (key) => {
    expect(await levelOf(() => store.write([{ put: key, value: 'x' }]))).toBe('FULL');
    expect(await levelOf(() => store.write([{ delete: key }]))).toBe('FULL');
  });

  test('does not wait because of records that a write only requires', async () => {
    const [grant, lastUse] = [keys.grant('u', 'app'), keys.lastUse('u', 'app')];
    expect(await levelOf(() => store.write([{ exists: grant }, { put: lastUse, value: 'x' }]))).toBe('NORMAL');
    expect(await levelOf(() => store.write([{ exists: lastUse }, { put: grant, value: 'x' }]))).toBe('FULL');
  });

  test('waits for audit entries, leases, reservations, messages, deletions, the probe, and partly durable writes', async () => {
    const writeBoth = () =>
      store.write([
        { put: 'last-use:{t}', value: 'x' },
        { put: 'grant:{t}', value: 'x' },
      ]);
    const index = keys.auditIndex('all', '');
    for (const write of [
      () => appendTo(store, keys.auditLog, '{}', 1, [index]),
      () => store.acquireLease(keys.refreshLease('u', 'app'), 'me', 10),
      () => store.increment(keys.binQuota('2026-11'), 1, { lifetimeSeconds: 9 }),
      () => store.publish('channel', 'x'),
      () => store.write([{ delete: keys.session('h') }]),
      () => store.ready(),
      writeBoth,
    ])
      expect(await levelOf(write), String(write)).toBe('FULL');
  });

  const lifecycleOf = () => {
    const signIns = createRecordStore({ store, clock: Date.now });
    const users = createUserStore({ store, clock: Date.now });
    const lifecycle = createUserLifecycle({
      store,
      signIns,
      users,
      sessions: { endAll: async () => {} },
      links: { revokeAll: async () => {} },
      connections: { list: async () => [], dropIds: async () => {}, end: async () => undefined },
      events: { userErased: () => undefined },
      clock: Date.now,
    });
    return { lifecycle, users, signIns };
  };

  test('waits for the deletion of a user who has only sign-in records', async () => {
    const { lifecycle, signIns } = lifecycleOf();
    const begun = { app: 'platform', purpose: 'sign_in' as const, startedAt: Date.now(), steps: [], facts: {} };
    const erase = async () => {
      await store.write(signIns.beginWrites({ ...begun, userId: 'gone', reference: 'AAAA1111', state: 's' }));
      expect((await signIns.find('AAAA1111'))?.userId).toBe('gone');
      await lifecycle.erase('gone', {});
      expect(await signIns.find('AAAA1111')).toBeUndefined();
    };
    expect(await levelOf(erase)).toBe('FULL');
  });

  test('keeps the user if a deletion fails on a full disk, so that it can be repeated', async () => {
    const { lifecycle, users } = lifecycleOf();
    await users.noteSignIn({ id: 'u', issuer: 'https://idp.example', subject: 's', name: undefined, email: undefined });
    await lifecycle.beginErasure('u');
    vi.spyOn(store, 'ready').mockRejectedValueOnce(new Error('disk full'));
    await expect(lifecycle.erase('u', {})).rejects.toThrow('disk full');
    expect(await users.find('u')).toBeDefined();

    await lifecycle.erase('u', {});
    expect(await users.find('u')).toBeUndefined();
  });
});
