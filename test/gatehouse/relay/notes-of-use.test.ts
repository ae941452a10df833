/** What is noted of uses goes with what was used: nothing is left behind where that ends while the note is written. */

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

/** The same store, in which this happens right before that key is written for the first time. */
function justBefore(key: string, happen: () => Promise<unknown>): Store & { written(): boolean } {
  let written = false;
  return {
    ...store,
    written: () => written,
    async write(writes, options) {
      const isMeant = !written && writes.some((step) => 'put' in step && step.put === key);
      if (isMeant) await happen();
      const answer = await store.write(writes, options);
      written ||= isMeant;
      return answer;
    },
  };
}

const sealedJson = createSealedJson(makeSealer());
const nothing = async () => undefined;
const isThere = async (key: string) => (await store.get(key)) !== undefined;

test.each([true, false])('the last use of a relay token: %s', async (lasts) => {
  const [owner, note] = [keys.relayToken('t'), keys.relayTokenUse('t')];
  await store.write([{ put: owner, value: '{}' }]);
  const by = justBefore(note, lasts ? nothing : () => store.write([{ delete: owner }]));
  const tokens = await createRelayTokens({ store: by, sealedJson, clock });
  await tokens.noteUse('t', '127.0.0.1');
  expect([by.written(), await isThere(note)]).toEqual([true, lasts]);
});

test.each([true, false])('the last use of an admin token: %s', async (lasts) => {
  const id = newOpaqueTokenId();
  const [owner, note] = [keys.adminToken(id), keys.adminTokenUse(id)];
  const by = justBefore(note, lasts ? nothing : () => store.write([{ delete: owner }]));
  const tokens = createAdminTokens({ store: by, sealedJson, clock });
  const { text } = await tokens.create({ id, name: 'n', scope: 'read', expiresAt: NOW + 1 });
  expect(await tokens.verify(text)).toMatchObject({ id });
  await until(() => by.written());
  expect(await isThere(note)).toBe(lasts);
});

test('R88 each kind of use is in the trail once an hour, with what sets it apart', async () => {
  const entries: AuditEntry[] = [];
  let now = NOW;
  const audit = { note: (entry: AuditEntry) => void entries.push(entry) };
  const uses = createRelayUses({ store, audit, clock: () => now, isApp: () => true });
  const use = { token: { id: 't', name: 'n' }, route: 'threads:read', result: 'answered' } as const;
  const kinds = [
    use,
    { ...use, token: { id: 't2', name: 'n' } },
    { ...use, route: 'bin:read' },
    { ...use, app: 'a' },
    { ...use, app: 'a', userId: 'u' },
    { ...use, app: 'a', serviceAccount: 'sa1' },
    { ...use, app: 'a', serviceAccount: 'sa2' },
    { ...use, result: 'failed' },
    { ...use, result: 'networks' },
  ] as const;
  const noteAll = () => {
    for (const kind of kinds) uses.note({ ...kind, address: '127.0.0.1', requestId: 'r' });
    return entries.splice(0);
  };
  expect(noteAll().map(({ event, outcome, facts }) => [event, outcome, facts?.serviceAccount])).toEqual([
    ...Array(5).fill(['relay.used', 'answered', undefined]),
    ['relay.used', 'answered', 'sa1'],
    ['relay.used', 'answered', 'sa2'],
    ['relay.used', 'failed', undefined],
    ['relay.refused', 'rule: networks', undefined],
  ]);
  now += 59 * 60_000;
  expect(noteAll()).toEqual([]);
  now += 60_000;
  expect(noteAll()).toHaveLength(kinds.length);
  await uses.close();
});

describe('the services that used a connection', () => {
  const [owner, note] = [keys.grant('u', 'app'), keys.relayUsesOf('u', 'app')];
  const noteUse = async (by: Store) => {
    const uses = createRelayUses({ store: by, audit: { note: () => undefined }, clock, isApp: () => true });
    const token = { id: 't', name: 'reports' };
    uses.note({
      ...{ token, route: 'threads:read', app: 'app', userId: 'u', result: 'answered' },
      ...{ address: '127.0.0.1', requestId: 'r' },
    });
    await uses.close();
    expect((await uses.hoursOf('token', 't')).length).toBeGreaterThan(0);
    return uses.servicesOf('u', 'app');
  };

  test('are noted while it lasts, whoever else notes at the same time', async () => {
    await store.write([{ put: owner, value: 'sealed' }]);
    const by = justBefore(note, () => noteUse(store));
    expect(await noteUse(by)).toMatchObject([{ name: 'reports', count: 2 }]);
  });

  test.each([
    ['the first', false],
    ['another', true],
  ])('are not where it ends before %s is written', async (_name, isKnown) => {
    await store.write([{ put: owner, value: 'sealed' }]);
    if (isKnown) expect(await noteUse(store)).toHaveLength(1);
    const by = justBefore(note, () => store.write([{ delete: owner }, { delete: note }]));
    expect(await noteUse(by)).toEqual([]);
    expect([by.written(), await isThere(note)]).toEqual([true, false]);
  });

  test('are not where it is gone already, which is tried once', async () => {
    const writes = vi.spyOn(store, 'write');
    expect(await noteUse(store)).toEqual([]);
    expect(await isThere(note)).toBe(false);
    expect(writes.mock.calls.filter(([steps]) => steps.some((step) => 'exists' in step))).toHaveLength(1);
  });
});

describe('sums by the hour', () => {
  type Use = Parameters<RelayUses['note']>[0];
  const HOUR = 3_600_000;
  const DAY = 24 * HOUR;
  const token = { id: 't', name: 'reports' };
  const use = { token, route: 'threads:read', app: 'app', result: 'answered', address: '127.0.0.1', requestId: 'r' };
  const counted = async (at: number, uses: readonly Partial<Use>[], apps = ['app']) => {
    const own = createRelayUses({
      ...{ store, audit: { note: () => undefined }, clock: () => at },
      isApp: (id) => apps.includes(id),
    });
    for (const one of uses) own.note({ ...use, ...one } as Use);
    await own.close();
    return own;
  };
  test('are those of a token by app, and those of an app by token, for thirty days', async () => {
    await counted(NOW - 31 * DAY, [{}]);
    await counted(NOW - 2 * DAY, [{}, {}, { result: 'users' }]);
    const uses = await counted(NOW, [
      {},
      { token: { id: 't2', name: 'other' } },
      { route: 'bin:read', app: undefined },
    ]);
    expect(await uses.hoursOf('token', 't')).toEqual([
      {
        at: NOW,
        counts: [
          { route: 'threads:read', result: 'answered', other: 'app', count: 1 },
          { route: 'bin:read', result: 'answered', other: undefined, count: 1 },
        ],
      },
      {
        at: NOW - 2 * DAY,
        counts: [
          { route: 'threads:read', result: 'answered', other: 'app', count: 2 },
          { route: 'threads:read', result: 'users', other: 'app', count: 1 },
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

  test('of one day come with the newest first', async () => {
    await counted(NOW - 2 * HOUR, [{}]);
    await counted(NOW - HOUR, [{}]);
    const hours = await (await counted(NOW, [{}])).hoursOf('token', 't');
    expect(hours.map(({ at }) => at)).toEqual([NOW, NOW - HOUR, NOW - 2 * HOUR]);
  });

  test('stay small, whatever a service sends as an app', async () => {
    const invented = Array.from({ length: 300 }, (_, at) => ({ app: `invented-${at}`, result: 'apps' as const }));
    const uses = await counted(NOW, invented);
    expect(await uses.hoursOf('token', 't')).toEqual([
      { at: NOW, counts: [{ route: 'threads:read', result: 'apps', other: undefined, count: 300 }] },
    ]);
    expect(await uses.hoursOf('app', 'invented-1')).toEqual([]);
    const tokens = Array.from({ length: 300 }, (_, at) => ({ token: { id: `t${at}`, name: 'n' } }));
    const [hour] = await (await counted(NOW, tokens)).hoursOf('app', 'app');
    expect(hour?.counts).toHaveLength(201);
    expect(hour?.counts.find(({ other }) => other === undefined)?.count).toBe(100);
  });

  test('of a connection: the latest hours of each service', async () => {
    await store.write([{ put: keys.grant('u', 'app'), value: 'sealed' }]);
    for (let hour = 299; hour >= 0; hour -= 1)
      await counted(NOW - hour * 3_600_000, [{ userId: 'u' }, { userId: 'u' }]);
    const uses = await counted(NOW, [{ userId: 'u', token: { id: 't2', name: 'other' } }]);
    const hours = await uses.hoursOfConnection('u', 'app');
    expect(hours.filter(({ token: one }) => one === 't2')).toEqual([{ at: NOW, token: 't2', count: 1 }]);
    const own = hours.filter(({ token: one }) => one === 't');
    expect(own.map(({ count }) => count)).toEqual(Array(240).fill(2));
    expect(Math.min(...own.map(({ at }) => at))).toBe(NOW - 239 * 3_600_000);
  });
});
