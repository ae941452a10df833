/** The audit trail: entries are found by each facet, and limited in age, number and length. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AuditFilter } from '../../../src/gatehouse/audit/facets.ts';
import type { AuditEntry } from '../../../src/gatehouse/audit/kinds.ts';
import { createAuditNotes } from '../../../src/gatehouse/audit/notes.ts';
import { type AuditTrailParts, createAuditTrail } from '../../../src/gatehouse/audit/trail.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const START = Date.parse('2026-01-01T00:00:00Z');
const DAY = 86_400_000;

let directory: string;
let store: Store;
let now: number;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-audit-'));
  store = await createSqliteStore({ directory });
  now = START;
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const createTrail = (parts: Partial<AuditTrailParts> = {}) => createAuditTrail({ store, clock: () => now, ...parts });

const entry = (changes: Partial<AuditEntry> = {}): AuditEntry => ({
  event: 'sign_in.succeeded',
  actor: { kind: 'user', id: 'u1', name: 'Ada@example.test' },
  target: { kind: 'connected_app', id: 'platform' },
  ...changes,
});

const readIds = async (entries: AsyncIterable<{ id: string }>) => {
  const ids: string[] = [];
  for await (const { id } of entries) ids.push(id);
  return ids;
};

describe('finding', () => {
  test('R88 an entry has actor, event, target, address, time and request', async () => {
    const trail = createTrail();
    await trail.append(entry({ address: '10.0.0.1', requestId: 'request-1', outcome: 'signed_in', facts: { n: 1 } }));
    const { items } = await trail.page({ limit: 5 });
    expect(items).toEqual([
      {
        id: expect.any(String),
        at: '2026-01-01T00:00:00.000Z',
        event: 'sign_in.succeeded',
        actor: { kind: 'user', id: 'u1', name: 'Ada@example.test' },
        target: { kind: 'connected_app', id: 'platform' },
        address: '10.0.0.1',
        requestId: 'request-1',
        outcome: 'signed_in',
        facts: { n: 1 },
      },
    ]);
  });

  test('pages list each entry once, newest first, even while entries are added', async () => {
    const trail = createTrail();
    for (let n = 0; n < 7; n += 1) await trail.append(entry({ facts: { n } }), START + Math.floor(n / 2));
    const firstPage = await trail.page({ limit: 3 });
    await trail.append(entry({ facts: { n: 7 } }), START + 9);
    const secondPage = await trail.page({ limit: 3, after: firstPage.next });
    const thirdPage = await trail.page({ limit: 3, after: secondPage.next });
    const numbers = [firstPage, secondPage, thirdPage].flatMap(({ items }) => items.map(({ facts }) => facts?.n));
    expect(numbers).toEqual([6, 5, 4, 3, 2, 1, 0]);
    expect(thirdPage.next).toBeUndefined();
  });

  test('filters by event, actor, target, time, text, and several of them', async () => {
    const trail = createTrail();
    await trail.append(entry(), START);
    await trail.append(entry({ event: 'user.disabled', target: { kind: 'user', id: 'u1', name: 'Ada' } }), START + DAY);
    await trail.append(
      entry({ event: 'connection.removed', actor: { kind: 'system' }, userId: 'u1' }),
      START + 2 * DAY,
    );
    await trail.append(entry({ actor: { kind: 'user', id: 'u2' }, facts: { why: 'A Needle' } }), START + 3 * DAY);
    const daysOfMatches = async (filter: AuditFilter) =>
      (await trail.page({ limit: 9, filter })).items.map(({ at }) => (Date.parse(at) - START) / DAY);
    expect(await daysOfMatches({ event: 'user.disabled' })).toEqual([1]);
    expect(await daysOfMatches({ actor: 'ada@EXAMPLE.test' })).toEqual([1, 0]);
    expect(await daysOfMatches({ target: 'u1' })).toEqual([2, 1]);
    expect(await daysOfMatches({ from: START + DAY, to: START + 2 * DAY })).toEqual([2, 1]);
    expect(await daysOfMatches({ text: 'needle' })).toEqual([3]);
    expect(await daysOfMatches({ target: 'platform', event: 'sign_in.succeeded', text: 'ada' })).toEqual([0]);
    expect(await daysOfMatches({ actor: 'nobody' })).toEqual([]);
  });

  test('refuses an invalid cursor', async () => {
    await createTrail().append(entry());
    await expect(createTrail().page({ limit: 2, after: 'x' })).rejects.toMatchObject({ code: 'invalid_request' });
  });
});

describe('keeping', () => {
  test('R88 removes control characters, escapes and direction marks, and cuts long texts', async () => {
    const trail = createTrail();
    const hostileText = 'a\r\nb\u001b[31m\u202ec\u2028';
    await trail.append(
      entry({
        actor: { kind: 'user', id: hostileText, name: hostileText },
        facts: { hostileText, list: [hostileText], long: 'x'.repeat(9_000) },
      }),
    );
    const [storedEntry] = (await trail.page({ limit: 1 })).items;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must be gone
    expect(JSON.stringify(storedEntry)).not.toMatch(/\\[rn]|\\u001b|[\u0000-\u001f\u202e\u2028]/);
    expect(String(storedEntry?.facts?.long)).toHaveLength(500);
  });

  test('R85 R86 removes card numbers from any text', async () => {
    const trail = createTrail();
    await trail.append(
      entry({ actor: { kind: 'user', name: '4111 1111 1111 1111' }, facts: { x: '4111111111111111' } }),
    );
    expect(JSON.stringify((await trail.page({ limit: 1 })).items)).not.toMatch(/4111/);
  });

  test('exports all entries, oldest first, in the form that log shippers get', async () => {
    const shippedIds: string[] = [];
    const trail = createTrail({ onStored: ({ id }) => shippedIds.push(id) });
    for (let n = 0; n < 600; n += 1) void trail.append(entry(), START + n);
    await trail.append(entry({ event: 'user.deleted' }), START + 600);
    const ids = await readIds(trail.export());
    expect(ids).toHaveLength(601);
    expect([...shippedIds].sort((a, b) => Number(a) - Number(b))).toEqual(ids);
    expect(await readIds(trail.export({ event: 'user.deleted' }))).toHaveLength(1);
    expect(await readIds(trail.export({ from: START + 600 }))).toHaveLength(1);
  });

  test('removes expired entries from the log and its indexes, even many with the same time', async () => {
    const trail = createTrail({ days: 10 });
    for (let n = 0; n < 120; n += 1) void trail.append(entry(), START);
    await trail.append(entry({ facts: { young: true } }), START + 5 * DAY);
    now = START + 11 * DAY;
    expect(await trail.trim()).toBe(120);
    expect((await trail.page({ limit: 200, filter: { actor: 'u1' } })).items).toHaveLength(1);
    expect(await readIds(trail.export())).toHaveLength(1);
    now = START + 16 * DAY;
    expect(await trail.trim()).toBe(1);
    expect((await trail.page({ limit: 9 })).items).toEqual([]);
  });

  test('removes the oldest entries beyond the maximum', async () => {
    const trail = createTrail({ maxEntries: 30 });
    for (let n = 0; n < 100; n += 1) await trail.append(entry({ facts: { n } }), START + n);
    expect(await trail.trim()).toBe(70);
    const remaining = await trail.page({ limit: 200 });
    expect([remaining.items.at(0)?.facts?.n, remaining.items.at(-1)?.facts?.n]).toEqual([99, 70]);
  });
});

describe('notes', () => {
  test('entries are stored after a storage outage, with the time of their event', async () => {
    let isDown = true;
    const trail = createTrail();
    const trailWithOutage = {
      appendAll: (entries: Parameters<typeof trail.appendAll>[0]) =>
        isDown ? Promise.reject(new AppError('storage_unavailable')) : trail.appendAll(entries),
    };
    const notes = createAuditNotes({ trail: trailWithOutage, clock: () => now, onLost: () => expect.unreachable() });
    notes.note(entry());
    now += 60_000;
    isDown = false;
    await expect.poll(async () => (await trail.page({ limit: 2 })).items).toHaveLength(1);
    await notes.settle();
    expect((await trail.page({ limit: 2 })).items[0]?.at).toBe('2026-01-01T00:00:00.000Z');
  });

  test('R54 callers who are not signed in cause a limited number of entries a minute', async () => {
    const trail = createTrail();
    const notes = createAuditNotes({ trail, clock: () => now, onLost: () => expect.unreachable() });
    const failed = entry({ event: 'sign_in.failed', actor: { kind: 'anonymous' } });
    for (let n = 0; n < 500; n += 1) notes.note(failed);
    now += 60_000;
    notes.note(failed);
    await notes.settle();
    const { items } = await trail.page({ limit: 200 });
    expect(items).toHaveLength(62);
    expect(items.map(({ facts }) => facts?.times).filter((times) => times !== undefined)).toEqual([440]);
  });
});
