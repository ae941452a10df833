/** Flashes at rest: sealed, and gone after a minute. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Request } from 'express';
import { expect, test } from 'vitest';
import { createFlashes } from '../../src/pages/flash.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../src/storage/key-ring.ts';
import { SEALED_KINDS } from '../../src/storage/keys.ts';
import { createSealer } from '../../src/storage/sealed.ts';
import { createSqliteStore } from '../../src/storage/sqlite/store.ts';

test('R106 a flash is sealed in the store and ends after 60 s', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-test-'));
  let now = Date.now();
  const store = await createSqliteStore({ directory, clock: () => now, random: Math.random });
  try {
    const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
    const sealer = createSealer('keys' in parsed ? parsed.keys : [], Object.keys(SEALED_KINDS));
    const flashes = createFlashes({ store, sealer });
    const reqOf = (url: string) => ({ url, context: { session: { ref: 'session' } } }) as unknown as Request;
    const keep = async () =>
      reqOf(await flashes.keep(reqOf('/'), '/admin?q=x', { made: { name: 'n', text: 'the secret' } }));
    const [early, late] = [await keep(), await keep()];
    for await (const records of store.walk()) expect(JSON.stringify(records)).not.toContain('secret');
    now += 59_000;
    expect(await flashes.take(early)).toEqual({ made: { name: 'n', text: 'the secret' } });
    now += 2_000;
    expect(await flashes.take(late)).toEqual({});
  } finally {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  }
});
