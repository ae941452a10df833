/** A record of use is not stored if the token or connection that was used is deleted during the write. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createAdminTokens } from '../../../src/gatehouse/admin-tokens/admin-tokens.ts';
import type { AuditEntry } from '../../../src/gatehouse/audit/kinds.ts';
import { createRelayTokens } from '../../../src/gatehouse/relay/relay-token.ts';
import { createRelayUses, type RelayUses } from '../../../src/gatehouse/relay/uses.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { newOpaqueTokenId } from '../../../src/shared/storage/opaque-token.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { until } from '../../support/until.ts';

const NOW = Date.parse('2026-03-15T12:00:00Z');
const clock = () => NOW;

let directory: string;
let store: Store;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-notes-'));
  store = await createSqliteStore({ directory });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

/** The same store, which calls `callback` right before the first write of the key. */
function withCallBefore(key: string, callback: () => Promise<unknown>): Store & { isWritten(): boolean } {
  let isWritten = false;
  return {
    ...store,
    isWritten: () => isWritten,
    async write(steps, options) {
      const isFirstWrite = !isWritten && steps.some((step) => 'put' in step && step.put === key);
      if (isFirstWrite) await callback();
      const result = await store.write(steps, options);
      if (isFirstWrite) isWritten = true;
      return result;
    },
  };
}

const sealedJson = createSealedJson(makeSealer());
const doNothing = async () => undefined;
const isStored = async (key: string) => (await store.get(key)) !== undefined;

test.each([true, false])('stores the last use of a relay token only while the token exists: %s', async (exists) => {
  const ownerKey = keys.relayToken('t');
  const useKey = keys.relayTokenUse('t');
  await store.write([{ put: ownerKey, value: '{}' }]);
  const observedStore = withCallBefore(useKey, exists ? doNothing : () => store.write([{ delete: ownerKey }]));
  const tokens = await createRelayTokens({ store: observedStore, sealedJson, clock });
  await tokens.noteUse('t', '127.0.0.1');
  expect(observedStore.isWritten()).toBe(true);
  expect(await isStored(useKey)).toBe(exists);
});

test.each([true, false])('stores the last use of an admin token only while the token exists: %s', async (exists) => {
  const id = newOpaqueTokenId();
  const ownerKey = keys.adminToken(id);
  const useKey = keys.adminTokenUse(id);
  const observedStore = withCallBefore(useKey, exists ? doNothing : () => store.write([{ delete: ownerKey }]));
  const tokens = createAdminTokens({ store: observedStore, sealedJson, clock });
  const { text } = await tokens.create({ id, name: 'n', scope: 'read', expiresAt: NOW + 1 });
  expect(await tokens.verify(text)).toMatchObject({ id });
  await until(() => observedStore.isWritten());
  expect(await isStored(useKey)).toBe(exists);
});

test('R88 audits each different use once an hour, with its facts', async () => {
  const entries: AuditEntry[] = [];
  let now = NOW;
  const audit = { note: (entry: AuditEntry) => void entries.push(entry) };
  const uses = createRelayUses({ store, audit, clock: () => now, isApp: () => true });
  const use = { token: { id: 't', name: 'n' }, scope: 'threads:read', result: 'succeeded' } as const;
  const differentUses = [
    use,
    { ...use, token: { id: 't2', name: 'n' } },
    { ...use, scope: 'bin:read' },
    { ...use, app: 'a' },
    { ...use, app: 'a', userId: 'u' },
    { ...use, app: 'a', serviceAccount: 'sa1' },
    { ...use, app: 'a', serviceAccount: 'sa2' },
    { ...use, result: 'failed' },
    { ...use, result: 'networks' },
  ] as const;
  /** Notes each use once, and returns the new audit entries. */
  const noteAll = () => {
    for (const differentUse of differentUses) uses.note({ ...differentUse, address: '127.0.0.1', requestId: 'r' });
    return entries.splice(0);
  };

  expect(noteAll().map(({ event, outcome, facts }) => [event, outcome, facts?.serviceAccount ?? facts?.rule])).toEqual([
    ['relay.used', 'succeeded', undefined],
    ['relay.used', 'succeeded', undefined],
    ['relay.used', 'succeeded', undefined],
    ['relay.used', 'succeeded', undefined],
    ['relay.used', 'succeeded', undefined],
    ['relay.used', 'succeeded', 'sa1'],
    ['relay.used', 'succeeded', 'sa2'],
    ['relay.used', 'failed', undefined],
    ['relay.refused', 'refused', 'networks'],
  ]);
  now += 59 * 60_000;
  expect(noteAll()).toEqual([]);
  now += 60_000;
  expect(noteAll()).toHaveLength(differentUses.length);
  await uses.close();
});

describe('the services that used a connection', () => {
  const ownerKey = keys.grant('u', 'app');
  const useKey = keys.relayUsesOf('u', 'app');
  /** Notes one use with this store, and returns the services that used the connection. */
  const noteUse = async (storeOfUses: Store) => {
    const uses = createRelayUses({ store: storeOfUses, audit: { note: () => undefined }, clock, isApp: () => true });
    const token = { id: 't', name: 'reports' };
    uses.note({
      token,
      scope: 'threads:read',
      app: 'app',
      userId: 'u',
      result: 'succeeded',
      address: '127.0.0.1',
      requestId: 'r',
    });
    await uses.close();
    expect((await uses.hoursOf('token', 't')).length).toBeGreaterThan(0);
    return uses.servicesOf('u', 'app');
  };

  test('are all stored if two processes write at the same time', async () => {
    await store.write([{ put: ownerKey, value: 'sealed' }]);
    const observedStore = withCallBefore(useKey, () => noteUse(store));
    expect(await noteUse(observedStore)).toMatchObject([{ name: 'reports', count: 2 }]);
  });

  test.each([
    ['the first', false],
    ['the second', true],
  ])('are not stored if the connection ends before %s use is written', async (_description, hasEarlierUse) => {
    await store.write([{ put: ownerKey, value: 'sealed' }]);
    if (hasEarlierUse) expect(await noteUse(store)).toHaveLength(1);
    const observedStore = withCallBefore(useKey, () => store.write([{ delete: ownerKey }, { delete: useKey }]));
    expect(await noteUse(observedStore)).toEqual([]);
    expect(observedStore.isWritten()).toBe(true);
    expect(await isStored(useKey)).toBe(false);
  });

  test('are not stored if the connection has already ended, after one attempt', async () => {
    const writes = vi.spyOn(store, 'write');
    expect(await noteUse(store)).toEqual([]);
    expect(await isStored(useKey)).toBe(false);
    expect(writes.mock.calls.filter(([steps]) => steps.some((step) => 'exists' in step))).toHaveLength(1);
  });
});

describe('totals by the hour', () => {
  type Use = Parameters<RelayUses['note']>[0];
  const HOUR = 3_600_000;
  const DAY = 24 * HOUR;
  const token = { id: 't', name: 'reports' };
  const use = { token, scope: 'threads:read', app: 'app', result: 'succeeded', address: '127.0.0.1', requestId: 'r' };
  /** Notes and stores these uses at this time. */
  const noteUses = async (time: number, uses: readonly Partial<Use>[]) => {
    const relayUses = createRelayUses({
      store,
      audit: { note: () => undefined },
      clock: () => time,
      isApp: (id) => id === 'app',
    });
    for (const changes of uses) relayUses.note({ ...use, ...changes } as Use);
    await relayUses.close();
    return relayUses;
  };
  test('are stored for a token by app, and for an app by token, for thirty days', async () => {
    await noteUses(NOW - 31 * DAY, [{}]);
    await noteUses(NOW - 2 * DAY, [{}, {}, { result: 'users' }]);
    const uses = await noteUses(NOW, [
      {},
      { token: { id: 't2', name: 'other' } },
      { scope: 'bin:read', app: undefined },
    ]);
    expect(await uses.hoursOf('token', 't')).toEqual([
      {
        at: NOW,
        counts: [
          { scope: 'threads:read', result: 'succeeded', other: 'app', count: 1 },
          { scope: 'bin:read', result: 'succeeded', other: undefined, count: 1 },
        ],
      },
      {
        at: NOW - 2 * DAY,
        counts: [
          { scope: 'threads:read', result: 'succeeded', other: 'app', count: 2 },
          { scope: 'threads:read', result: 'users', other: 'app', count: 1 },
        ],
      },
    ]);
    const ofApp = await uses.hoursOf('app', 'app', NOW + 1);
    expect(ofApp[0]?.counts.map(({ other, count }) => [other, count])).toEqual([
      ['t', 1],
      ['t2', 1],
    ]);
    expect(await uses.hoursOf('app', 'app', NOW)).toHaveLength(1);
  });

  test('are returned with the newest hour first', async () => {
    await noteUses(NOW - 2 * HOUR, [{}]);
    await noteUses(NOW - HOUR, [{}]);
    const hours = await (await noteUses(NOW, [{}])).hoursOf('token', 't');
    expect(hours.map(({ at }) => at)).toEqual([NOW, NOW - HOUR, NOW - 2 * HOUR]);
  });

  test('name no app that does not exist, and at most 200 relay tokens of an app', async () => {
    const usesOfUnknownApps = Array.from({ length: 300 }, (_, index) => ({
      app: `invented-${index}`,
      result: 'apps' as const,
    }));
    const uses = await noteUses(NOW, usesOfUnknownApps);
    expect(await uses.hoursOf('token', 't')).toEqual([
      { at: NOW, counts: [{ scope: 'threads:read', result: 'apps', other: undefined, count: 300 }] },
    ]);
    expect(await uses.hoursOf('app', 'invented-1')).toEqual([]);

    const usesOfTokens = Array.from({ length: 300 }, (_, index) => ({ token: { id: `t${index}`, name: 'n' } }));
    const [hour] = await (await noteUses(NOW, usesOfTokens)).hoursOf('app', 'app');
    expect(hour?.counts).toHaveLength(201);
    expect(hour?.counts.find(({ other }) => other === undefined)?.count).toBe(100);
  });

  test('of a connection are stored for the latest 240 hours of each service', async () => {
    await store.write([{ put: keys.grant('u', 'app'), value: 'sealed' }]);
    for (let hoursAgo = 299; hoursAgo >= 0; hoursAgo -= 1) {
      await noteUses(NOW - hoursAgo * HOUR, [{ userId: 'u' }, { userId: 'u' }]);
    }
    const uses = await noteUses(NOW, [{ userId: 'u', token: { id: 't2', name: 'other' } }]);

    const hours = await uses.hoursOfConnection('u', 'app');
    expect(hours.filter(({ token: id }) => id === 't2')).toEqual([{ at: NOW, token: 't2', count: 1 }]);
    const hoursOfFirst = hours.filter(({ token: id }) => id === 't');
    expect(hoursOfFirst.map(({ count }) => count)).toEqual(Array(240).fill(2));
    expect(Math.min(...hoursOfFirst.map(({ at }) => at))).toBe(NOW - 239 * HOUR);
  });
});
