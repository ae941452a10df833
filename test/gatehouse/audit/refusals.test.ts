/** R94: refusals and everyday events never evict a change from the audit trail, and are collapsed by actor and kind. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createCollapse } from '../../../src/gatehouse/audit/collapse.ts';
import type { AuditEntry, AuditRecord } from '../../../src/gatehouse/audit/kinds.ts';
import { createAuditNotes } from '../../../src/gatehouse/audit/notes.ts';
import { createAuditTrail } from '../../../src/gatehouse/audit/trail.ts';
import { containsCardNumber } from '../../../src/shared/observability/card-numbers.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { createAdministrator } from '../relay/service.ts';

const START = Date.parse('2026-01-01T00:00:00Z');
const DAY = 86_400_000;
const BOB: AuditEntry['actor'] = { kind: 'user', id: 'u2', name: 'bob@example.test' };

const change: AuditEntry = { event: 'connected_app.changed', actor: { kind: 'administrator', id: 'u1' } };
const refusal: AuditEntry = { event: 'admin.refused', actor: BOB, outcome: 'refused', code: 'not_allowed' };
const signedIn: AuditEntry = { event: 'sign_in.succeeded', actor: BOB };
const exchanged: AuditEntry = {
  event: 'relay_token.exchanged',
  actor: { kind: 'relay_token', id: 't1' },
  target: { kind: 'connected_app', id: 'platform' },
  userId: 'u2',
};

/** Returns the number of entries of each event. */
function countByEvent(records: readonly AuditRecord[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { event } of records) counts[event] = (counts[event] ?? 0) + 1;
  return counts;
}

describe('R94 the trail', () => {
  let emptyStorage: TestStorage;
  beforeAll(async () => {
    emptyStorage = await createTestStorage('SQLite');
  });
  afterAll(() => emptyStorage?.dispose());

  /** Returns every entry. Fails unless the export and the pages have the same. */
  const readAll = async (store: Store) => {
    const trail = createAuditTrail({ store, clock: () => START });
    const exported = await Array.fromAsync(trail.export());
    const { items } = await trail.page({ limit: 500 });
    expect(items.toReversed().map(({ id }) => id)).toEqual(exported.map(({ id }) => id));
    return exported;
  };

  test('too many everyday events evict only everyday events, and no change', async () => {
    await emptyStorage.withStore(async (store) => {
      let now = START;
      const trail = createAuditTrail({ store, clock: () => now, days: 30, maxEntries: 60 });
      for (let number = 0; number < 20; number += 1) await trail.append(change, START + number);
      for (let number = 0; number < 150; number += 1) {
        for (const entry of [refusal, signedIn, exchanged]) await trail.append(entry, START + 100 + number);
      }
      expect(await trail.trim()).toBe(390);
      expect(countByEvent(await readAll(store))).toEqual({
        ...{ 'connected_app.changed': 20, 'admin.refused': 20, 'sign_in.succeeded': 20, 'relay_token.exchanged': 20 },
      });
      expect((await trail.page({ limit: 500, filter: { actor: 'u2' } })).items).toHaveLength(40);
      expect(await trail.trim()).toBe(0);
      for (let number = 0; number < 70; number += 1) await trail.append(change, START + 1_000 + number);
      expect(await trail.trim()).toBe(30);
      expect(countByEvent(await readAll(store))).toMatchObject({ 'connected_app.changed': 60, 'admin.refused': 20 });
      now = START + 31 * DAY;
      expect(await trail.trim()).toBe(120);
      expect(await readAll(store)).toEqual([]);
      expect((await trail.page({ limit: 9, filter: { event: 'admin.refused' } })).items).toEqual([]);
    });
    // No index has an entry left.
    expect((await emptyStorage.items()).filter((item) => 'index' in item && item.index.startsWith('audit'))).toEqual(
      [],
    );
  });
});

test('R94 too many everyday events are removed without reading the changes before them', async () => {
  const emptyStorage = await createTestStorage('SQLite');
  await emptyStorage.withStore(async (store) => {
    let readCount = 0;
    const logEntries: Store['logEntries'] = (log, ids) => {
      readCount += ids.length;
      return store.logEntries(log, ids);
    };
    const trail = createAuditTrail({ store: { ...store, logEntries }, clock: () => START, maxEntries: 200 });
    for (let number = 0; number < 200; number += 1) await trail.append(change, START + number);
    for (let number = 0; number < 203; number += 1) await trail.append(signedIn, START + 1_000 + number);
    expect(await trail.trim()).toBe(3);
    expect(readCount).toBe(3);
  });
  await emptyStorage.dispose();
});

test.skipIf(missingRedis !== undefined)(
  'R86 on Redis no id of an entry is taken for a card number in the log',
  async () => {
    const emptyStorage = await createTestStorage('Redis');
    await emptyStorage.withStore(async (store) => {
      const records: AuditRecord[] = [];
      const trail = createAuditTrail({ store, clock: () => START, onStored: (record) => void records.push(record) });
      for (let number = 0; number < 200; number += 1) await trail.append(signedIn);
      expect(records.filter((record) => containsCardNumber(JSON.stringify(record)))).toEqual([]);
      // Log lines, pages and exports have the same ids, so that a collector recognizes entries that it has.
      const { items } = await trail.page({ limit: 200 });
      expect(items.toReversed()).toEqual(records);
      expect(await Array.fromAsync(trail.export())).toEqual(records);
      expect(new Set(records.map(({ id }) => id)).size).toBe(200);
    });
    await emptyStorage.dispose();
  },
);

test('R94 counts every action of an administrator as a change, except refusals and reading', async () => {
  const emptyStorage = await createTestStorage('SQLite');
  await emptyStorage.withStore(async (store) => {
    const trail = createAuditTrail({ store, clock: () => START, maxEntries: 1 });
    const actor = { kind: 'admin_token', id: 'a1' } as const;
    await trail.append({ ...refusal, actor });
    for (const event of ['session.ended', 'connection.removed', 'admin.refused', 'audit.exported'] as const)
      await trail.append({ event, actor });
    await trail.append(signedIn);
    await trail.trim();
    expect((await Array.fromAsync(trail.export())).map(({ event }) => event)).toEqual([
      'connection.removed',
      'sign_in.succeeded',
    ]);
  });
  await emptyStorage.dispose();
});

describe('R94 refusals', () => {
  const createNotes = (stored: AuditEntry[], clock: () => number) =>
    createAuditNotes({
      trail: { appendAll: async (entries) => void stored.push(...entries.map(({ entry }) => entry)) },
      clock,
      onLost: () => expect.unreachable(),
    });

  test('of one actor are stored as one entry a minute, and one with the count of the others', async () => {
    const stored: AuditEntry[] = [];
    let now = START;
    const notes = createNotes(stored, () => now);
    for (let number = 0; number < 10_000; number += 1) {
      now = START + number * 6;
      notes.note({ ...refusal, requestId: `request-${number}` });
      if (number % 100 === 0) notes.note({ ...refusal, actor: { kind: 'user', id: 'u3' } });
      if (number % 1_000 === 0) notes.note(change);
    }
    await notes.settle();
    expect(stored.filter(({ event }) => event === 'connected_app.changed')).toHaveLength(10);
    const refusals = stored.filter(({ event }) => event === 'admin.refused');
    expect(refusals.map(({ actor, requestId, facts }) => [actor.id, requestId, facts?.times])).toEqual([
      ['u2', 'request-0', undefined],
      ['u3', undefined, undefined],
      ['u2', 'request-9999', 9_999],
      ['u3', undefined, 99],
    ]);
  });

  test('of callers who are not signed in are also collapsed by kind', () => {
    const stored: AuditEntry[] = [];
    const collapse = createCollapse(
      () => START,
      (entry) => stored.push(entry),
    );
    const anonymous = { kind: 'anonymous' } as const;
    for (let number = 0; number < 100; number += 1) collapse.note({ event: 'admin.refused', actor: anonymous });
    for (let number = 0; number < 70; number += 1) collapse.note({ event: 'sign_in.failed', actor: anonymous });
    collapse.flush();
    const counted = stored.filter(({ facts }) => facts?.times !== undefined);
    expect(counted.map(({ event, facts }) => [event, facts?.times])).toEqual([
      ['admin.refused', 40],
      ['sign_in.failed', 10],
    ]);
  });

  test('R137 of one address are collapsed before those of another', () => {
    const stored: AuditEntry[] = [];
    const collapse = createCollapse(
      () => START,
      (entry) => stored.push(entry),
    );
    const target = { kind: 'connected_app', id: 'platform' };
    const refuse = (address: string) =>
      collapse.note({ event: 'sign_in.failed', actor: { kind: 'anonymous' }, target, address });
    for (let n = 0; n < 1_000; n += 1) refuse('2001:db8::1');
    refuse('2001:db8:0:0:2::2');
    refuse('192.0.2.1');
    for (let host = 0; host < 100; host += 1) refuse(`198.51.100.${host}`);
    collapse.flush();
    expect(stored.filter(({ facts }) => facts?.times === undefined)).toHaveLength(60);
    expect(stored.filter(({ address }) => address === '192.0.2.1')).toHaveLength(1);
    expect(stored.filter(({ facts }) => facts?.times !== undefined)).toEqual([
      {
        event: 'sign_in.failed',
        actor: { kind: 'anonymous' },
        target,
        address: '2001:db8:0:0:2::2',
        facts: { times: 981 },
      },
      { event: 'sign_in.failed', actor: { kind: 'anonymous' }, target, facts: { times: 61 } },
    ]);
  });

  test('R137 the entries of a relay token about many users, and of a provider that ends no session, are collapsed', () => {
    const stored: AuditEntry[] = [];
    const collapse = createCollapse(
      () => START,
      (entry) => stored.push(entry),
    );
    const ended: AuditEntry = { event: 'session.ended_by_provider', actor: { kind: 'provider', id: 'platform' } };
    const used: AuditEntry = { ...exchanged, event: 'relay.used', outcome: 'succeeded' };
    const refused: AuditEntry = { ...exchanged, event: 'relay.refused', outcome: 'refused', facts: { rule: 'users' } };
    const link: AuditEntry = { ...exchanged, event: 'connect_link.created', facts: { app: 'platform' } };
    for (let n = 0; n < 1_000; n += 1) {
      collapse.note({ ...exchanged, userId: `u${n}` });
      collapse.note({ ...used, userId: `u${n}` });
      collapse.note({ ...refused, userId: `u${n}` });
      collapse.note({ ...ended, facts: { sessions: 0 } });
      collapse.note({ ...link, target: { kind: 'connect_link', id: `l${n}` }, userId: `u${n}` });
    }
    for (let n = 0; n < 100; n += 1) collapse.note({ ...ended, facts: { sessions: 1 } });
    const other = { kind: 'relay_token', id: 't2' } as const;
    collapse.note({ ...exchanged, actor: other });
    const byOtherRule: AuditEntry = { ...refused, facts: { rule: 'apps' } };
    collapse.note(byOtherRule);
    collapse.flush();
    const summaries = stored.filter(({ facts }) => facts?.times !== undefined);
    const { actor, target } = exchanged;
    expect(summaries).toEqual([
      { event: 'relay_token.exchanged', actor, target, facts: { times: 940 } },
      { event: 'relay.used', actor, target, outcome: 'succeeded', facts: { times: 940 } },
      { event: 'relay.refused', actor, target, outcome: 'refused', facts: { rule: 'users', times: 940 } },
      { ...ended, facts: { times: 940 } },
      { event: 'connect_link.created', actor, facts: { app: 'platform', times: 940 } },
    ]);
    expect(stored).toHaveLength(5 * 60 + 100 + 2 + summaries.length);
    expect(stored.filter((entry) => entry.actor === other)).toHaveLength(1);
    expect(stored).toContain(byOtherRule);
  });

  test('R137 failed refreshes are collapsed by app, outcome and reason', () => {
    const stored: AuditEntry[] = [];
    const collapse = createCollapse(
      () => START,
      (entry) => stored.push(entry),
    );
    const actor = { kind: 'system' } as const;
    const failed = (userId: string, app: string, reason: string): AuditEntry => ({
      ...{ event: 'refresh.failed', actor, target: { kind: 'connection', id: `${userId}/${app}` }, userId },
      ...{ outcome: 'unclear_refusal', facts: { connection: `c-${userId}`, reason } },
    });
    for (let n = 0; n < 300; n += 1) collapse.note(failed(`u${n % 2}`, 'platform', 'invalid_scope'));
    const beside = [failed('u2', 'platform', 'server_error'), failed('u2', 'files', 'invalid_scope')];
    for (const entry of beside) collapse.note(entry);
    collapse.flush();
    expect(stored).toHaveLength(60 + beside.length + 1);
    expect(stored.slice(60)).toEqual([
      ...beside,
      {
        ...{ event: 'refresh.failed', actor, target: { kind: 'connected_app', id: 'platform' } },
        ...{ outcome: 'unclear_refusal', facts: { reason: 'invalid_scope', times: 240 } },
      },
    ]);
  });

  test('are collapsed by kind and by minute', async () => {
    const stored: AuditEntry[] = [];
    let now = START;
    const notes = createNotes(stored, () => now);
    for (let minute = 0; minute < 3; minute += 1) {
      now = START + minute * 60_000;
      for (let number = 0; number < 5; number += 1) {
        for (const entry of [refusal, exchanged, { ...exchanged, userId: 'u3' }]) notes.note(entry);
      }
    }
    await notes.settle();
    const counts = Object.values(Object.groupBy(stored, ({ event, userId }) => `${event} ${userId}`));
    expect(counts.map((entries) => entries?.map(({ facts }) => facts?.times))).toEqual(
      Array(3).fill([undefined, 4, undefined, 4, undefined, 4]),
    );
  });
});

test('R138 connect links of one relay token, user and app are collapsed', async () => {
  const stored: AuditEntry[] = [];
  const collapse = createCollapse(
    () => START,
    (entry) => stored.push(entry),
  );
  const created = (id: number, tokenId: string, userId: string, app: string): AuditEntry => ({
    ...{ event: 'connect_link.created', actor: { kind: 'relay_token', id: tokenId }, userId },
    ...{ target: { kind: 'connect_link', id: `link-${id}` }, facts: { app } },
  });
  for (let n = 0; n < 1_000; n += 1) collapse.note(created(n, 't1', 'u1', 'platform'));
  const beside = [
    created(1_000, 't2', 'u1', 'platform'),
    created(1_001, 't1', 'u2', 'platform'),
    created(1_002, 't1', 'u1', 'files'),
  ];
  for (const entry of beside) collapse.note(entry);
  collapse.flush();
  const first = created(0, 't1', 'u1', 'platform');
  const last = created(999, 't1', 'u1', 'platform');
  expect(stored).toEqual([first, ...beside, { ...last, facts: { ...last.facts, times: 999 } }]);
});

describe('R94 over HTTP', () => {
  let site: TestSite;
  let storage: StorageAccess;
  beforeAll(async () => {
    site = await startSite();
    storage = await openStorageOf(site);
  });
  afterAll(async () => {
    await storage.close();
    await site.close();
  });

  test('refusals of a user are stored as a few entries with their count', async () => {
    const admin = await createAdministrator(site, storage);
    const { agent } = await signIn(site, 'second@example.test');
    const cookie = agent.cookies.header(site.url);
    for (let number = 0; number < 300; number += 1) {
      expect((await sendRequest(`${site.url}/admin/api/users`, { headers: { ...ACCEPT_JSON, cookie } })).status).toBe(
        403,
      );
    }
    await site.restart();
    const readEntries = async () =>
      (await admin.call('GET', '/audit?event=admin.refused&limit=100')).json.items as AuditRecord[];
    await until(async () => (await readEntries()).length > 1);
    const entries = await readEntries();
    expect(new Set(entries.map(({ actor }) => `${actor.kind} ${actor.name}`))).toEqual(
      new Set(['user second@example.test']),
    );
    // A new minute may begin between the calls.
    expect(entries.length).toBeLessThan(20);
    const refusalCount = entries.reduce((sum, { facts }) => sum + Number(facts?.times ?? 1), 0);
    expect(refusalCount).toBe(300);
  });
});
