/** Lists are never truncated silently: the 1,001st app, grant and open refresh is in its list. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAppRegistry } from '../../../src/gatehouse/connected-apps/app-registry.ts';
import { createCurrentApps } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealer, type Sealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const MANY = 1_001;
const ids = Array.from({ length: MANY }, (_none, index) => `app-${String(index).padStart(4, '0')}`);

let directory: string;
let store: Store;
let sealer: Sealer;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-many-'));
  store = await createSqliteStore({ directory, clock: Date.now, random: Math.random });
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  sealer = createSealer(parsed.keys);
});
afterAll(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

/** Writes sealed records and their index in one write, in the state that single changes would leave. */
async function writeAll(index: string, records: { key: string; member: string; value: unknown }[]): Promise<void> {
  const writes = records.map(async ({ key, member, value }, score) => [
    { put: key, value: await sealer.seal(JSON.stringify(value), key) },
    { index, add: member, score },
  ]);
  expect(await store.write((await Promise.all(writes)).flat())).toBeDefined();
}

describe('a list of 1,001 items', () => {
  test('has all registered apps', async () => {
    const recordOf = (id: string) => ({ app: { id, name: id } as ConnectedApp, createdAt: 0, changedAt: 0 });
    await writeAll(
      keys.connectedApps,
      ids.map((id) => ({ key: keys.connectedApp(id), member: id, value: recordOf(id) })),
    );
    const apps = createCurrentApps([]);
    const registry = await createAppRegistry({ store, sealedJson: createSealedJson(sealer), apps, clock: Date.now });
    expect([(await registry.list()).length, apps.list().length]).toEqual([MANY, MANY]);
    expect(apps.find(ids.at(-1) ?? '')).toBeDefined();

    await registry.close();
  });

  test('has all grants of a user', async () => {
    await writeAll(
      keys.grants('u1'),
      ids.map((appId) => ({ key: keys.grant('u1', appId), member: appId, value: { userId: 'u1', appId } as Grant })),
    );
    const grants = createGrantStore({ store, sealedJson: createSealedJson(sealer), clock: Date.now });
    expect((await grants.list('u1')).map(({ appId }) => appId)).toEqual(ids);
  });

  test('has all open refreshes', async () => {
    const open = ids.map((id, score) => ({ index: keys.unfinishedRefreshes, add: JSON.stringify(['u1', id]), score }));
    expect(await store.write(open)).toBeDefined();
    const grants = createGrantStore({ store, sealedJson: createSealedJson(sealer), clock: Date.now });
    expect((await grants.listUnfinishedRefreshes()).map(({ appId }) => appId)).toEqual(ids);
  });
});
