/** The figures of an app do not depend on how much else happens: other entries about it, and connections of other apps. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createAppFigures } from '../../../../src/gatehouse/admin/connected-apps/figures.ts';
import type { AuditEntry } from '../../../../src/gatehouse/audit/kinds.ts';
import { type AuditTrail, createAuditTrail } from '../../../../src/gatehouse/audit/trail.ts';
import { createConnectionIndex } from '../../../../src/gatehouse/grants/connection-index.ts';
import { createSqliteStore } from '../../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../../src/shared/storage/store.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');
const HOUR = 3_600_000;
const clock = () => NOW;

let directory: string;
let store: Store;
let trail: AuditTrail;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-figures-'));
  store = await createSqliteStore({ directory });
  trail = createAuditTrail({ store, clock });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const append = (count: number, hoursAgo: number, entry: Omit<AuditEntry, 'target'>) =>
  trail.appendAll(
    Array.from({ length: count }, (_, number) => ({
      at: NOW - hoursAgo * HOUR - number,
      entry: { ...entry, target: { kind: 'connected_app', id: 'platform' } },
    })),
  );
const USER = { kind: 'user', id: 'u1' } as const;

function readFigures() {
  let entriesRead = 0;
  const counted: AuditTrail = createAuditTrail({
    store: {
      ...store,
      async logEntries(...request) {
        const entries = await store.logEntries(...request);
        entriesRead += entries.length;
        return entries;
      },
    },
    clock,
  });
  const read = createAppFigures({
    audit: { trail: counted },
    relay: { uses: { hoursOf: async () => [] } },
    grants: { index: createConnectionIndex({ store, clock }) },
    clock,
  } as never as Parameters<typeof createAppFigures>[0]);
  return { read: () => read('platform'), entriesRead: () => entriesRead };
}

test('count the sign-ins, and find the last one, among thousands of calls by services', async () => {
  await append(1, 60, { event: 'sign_in.succeeded', actor: USER });
  await append(3, 5, { event: 'sign_in.failed', actor: USER });
  await append(2_000, 1, { event: 'relay.used', actor: { kind: 'relay_token', id: 'r1' } });
  const { read, entriesRead } = readFigures();
  expect(await read()).toMatchObject({
    signIns: { value: 0, isExact: true },
    failedSignIns: { value: 3, isExact: true },
    lastSignInAt: new Date(NOW - 60 * HOUR).toISOString(),
  });
  expect(entriesRead()).toBe(4);
});

test('are exact if only older sign-ins are beyond those that are counted', async () => {
  await append(600, 30, { event: 'sign_in.succeeded', actor: USER });
  await append(2, 1, { event: 'sign_in.succeeded', actor: USER });
  expect(await readFigures().read()).toMatchObject({ signIns: { value: 2, isExact: true } });
  await append(600, 2, { event: 'sign_in.refused', actor: USER });
  expect(await readFigures().read()).toMatchObject({
    ...{ signIns: { value: 2, isExact: false }, failedSignIns: { value: 498, isExact: false } },
  });
});

test('do not say that nobody has signed in, if the last sign-in is older than those that are counted', async () => {
  expect((await readFigures().read()).lastSignInAt).toBeNull();
  await append(1, 60, { event: 'sign_in.succeeded', actor: USER });
  await append(500, 2, { event: 'sign_in.failed', actor: USER });
  expect((await readFigures().read()).lastSignInAt).toBeUndefined();
});
