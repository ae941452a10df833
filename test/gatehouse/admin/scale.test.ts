/**
 * The administration with many users and a long audit trail: every page stays fast. `FAULTS=long` uses the full
 * numbers.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAuditTrail } from '../../../src/gatehouse/audit/trail.ts';
import { createConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createUserStore } from '../../../src/gatehouse/users/user-store.ts';
import { parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { appOfFile } from '../../support/apps.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { grantOf } from './many.ts';

const LONG = process.env.FAULTS === 'long';
const USERS = LONG ? 10_000 : 500;
const ENTRIES = LONG ? 100_000 : 2_000;
const CONCURRENT = 250;
const MAX_MILLISECONDS = 100;

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site, 'admin@example.test'));
  const store = await createSqliteStore({ directory: site.dataDirectory, clock: Date.now, random: Math.random });
  await fill(store);
  await store.close();
});
afterAll(() => site.close());

async function fill(store: Store): Promise<void> {
  const clock = Date.now;
  const parsed = parseEncryptionKeys(String(site.env.ENCRYPTION_KEYS));
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  const sealedJson = createSealedJson(createSealer(parsed.keys));
  const users = createUserStore({ store, clock });
  const grants = createGrantStore({
    store,
    sealedJson,
    clock,
    connectionIndex: createConnectionIndex({ store, clock }),
  });
  const app = appOfFile(site.env);
  const trail = createAuditTrail({ store, clock });
  await runInBatches(USERS, async (number) => {
    const id = `user-${number}`;
    const email = `person${number}@example.test`;
    await users.noteSignIn({ id, issuer: site.sandbox.issuer, subject: id, name: `Person ${number}`, email });
    await grants.save(grantOf(id, app), 0);
  });
  await runInBatches(ENTRIES, (number) =>
    trail.append({
      event: number % 7 === 0 ? 'sign_in.failed' : 'sign_in.succeeded',
      actor: { kind: 'user', id: `user-${number % USERS}`, name: `Person ${number % USERS}` },
      target: { kind: 'connected_app', id: 'platform' },
      address: '127.0.0.1',
    }),
  );
}

/** Calls `work` with each number below `count`, in batches. */
async function runInBatches(count: number, work: (number: number) => Promise<unknown>): Promise<void> {
  for (let start = 0; start < count; start += CONCURRENT) {
    const size = Math.min(CONCURRENT, count - start);
    await Promise.all(Array.from({ length: size }, (_, offset) => work(start + offset)));
  }
}

const PAGES = [
  '/admin',
  '/admin?days=30',
  '/admin/users',
  '/admin/users?q=person1',
  '/admin/users/user-42',
  '/admin/connections',
  '/admin/connections?app=platform',
  '/admin/sessions',
  '/admin/sign-ins',
  '/admin/audit',
  '/admin/audit?event=sign_in.failed',
  '/admin/audit?q=Person+77',
  '/admin/audit?actor=Person',
  '/admin/audit?target=person77@example.test',
  '/admin/audit?q=person77@example.test',
  '/admin/connected-apps',
  '/admin/connected-apps/platform',
  '/admin/connected-apps/platform/activity',
  '/admin/relay-tokens',
  '/admin/keys',
  '/admin/service-accounts',
  '/admin/webhooks',
  '/admin/admin-tokens',
  '/admin/policy',
  '/admin/bin',
  '/admin/users?q=person9999%40example.test',
  '/admin/sign-ins?q=person77%40example.test',
  '/admin/connections?q=person77%40example.test',
  '/admin/connections?q=person',
  '/admin/sessions?q=person',
  '/admin/connections?health=reconnect_needed',
  '/admin/audit?actor=user-42',
  '/admin/api/users?limit=50',
  '/admin/api/connections?limit=50',
  '/admin/api/audit?limit=50',
];

test.each(PAGES)('%s is quick', async (path) => {
  const times: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const elapsed = startStopwatch();
    const { status } = await agent.get(site.url + path, {
      headers: { accept: path.includes('/api/') ? 'application/json' : 'text/html' },
    });
    times.push(elapsed());
    expect(status).toBe(200);
  }
  const first = times[0] ?? 0;
  const [best = 0, _second, median = 0] = times.toSorted((left, right) => left - right);
  if (LONG)
    process.stdout.write(`${path}: ${median.toFixed(0)} ms (best ${best.toFixed(0)}, first ${first.toFixed(0)})\n`);
  // The best of five rounds counts, because other programs on this machine slow down some of them.
  expect(best).toBeLessThan(MAX_MILLISECONDS);
  // Counting the records takes up to a second. Even the first request of this page does not wait for it.
  if (path === '/admin/keys') expect(first).toBeLessThan(LONG ? MAX_MILLISECONDS : 5 * MAX_MILLISECONDS);
});

test('paging returns every item once', async () => {
  const seen = new Set<string>();
  let after: string | undefined;
  do {
    const query = new URLSearchParams({ limit: '100', ...(after === undefined ? {} : { after }) });
    const page = await agent.get(`${site.url}/admin/api/users?${query}`, { headers: { accept: 'application/json' } });
    const { items, next } = JSON.parse(page.body) as { items: { id: string }[]; next?: string };
    for (const { id } of items) seen.add(id);
    after = next;
  } while (after !== undefined);
  expect(seen.size).toBe(USERS + 1);
});
