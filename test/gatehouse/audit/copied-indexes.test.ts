/** In a copy of a storage, the indexes of a log refer to its entries by position. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createAuditTrail } from '../../../src/gatehouse/audit/trail.ts';
import { copyOut } from '../../../src/shared/storage/copy.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';

test('every index of the audit trail in a copy refers to entries by position', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-copied-'));
  const store = await createSqliteStore({ directory });
  try {
    const trail = createAuditTrail({ store, clock: Date.now });
    const actor = { kind: 'user' as const, id: 'u1' };
    const target = { kind: 'user', id: 'u2' };
    // Removing the first entry makes every id differ from the position of its entry.
    await trail.append({ event: 'user.disabled', actor, target }, 1);
    await trail.trim();
    await trail.append({ event: 'user.disabled', actor, target });
    await trail.append({ event: 'sign_in.failed', actor });
    const items = (await Array.fromAsync(copyOut(store))).flat();
    const positions = new Set(items.flatMap((item) => ('log' in item ? [item.id] : [])));
    const indexMembers = items.flatMap((item) => ('index' in item ? [item] : []));
    const indexKinds = new Set(indexMembers.map(({ index }) => index.slice(0, index.indexOf(':'))));
    expect(positions.size).toBe(2);
    expect(indexKinds.size).toBe(6);
    expect(indexMembers.filter(({ member }) => !positions.has(member))).toEqual([]);
  } finally {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  }
});
