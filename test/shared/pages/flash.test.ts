/** Flashes are sealed in the store, expire after a minute, and are shown once. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Request } from 'express';
import { expect, test } from 'vitest';
import { createFlashes } from '../../../src/shared/pages/flash.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { SEALED_KINDS } from '../../../src/shared/storage/keys.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';

test('R106 a flash is sealed in the store and ends after 60 s', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-test-'));
  let now = Date.now();
  const store = await createSqliteStore({ directory, clock: () => now, random: Math.random });
  try {
    const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
    const sealer = createSealer('keys' in parsed ? parsed.keys : [], Object.keys(SEALED_KINDS));
    const flashes = createFlashes({ store, sealedJson: createSealedJson(sealer) });
    const reqOf = (url: string) =>
      ({ url, headers: {}, context: { session: { ref: 'session' } } }) as unknown as Request;
    const save = async () =>
      reqOf(
        await flashes.save(reqOf('/'), '/admin?q=x', { newSecret: { kind: 'key', name: 'n', text: 'the secret' } }),
      );
    const [early, late] = [await save(), await save()];
    for await (const records of store.walk()) expect(JSON.stringify(records)).not.toContain('secret');
    now += 59_000;
    expect(await flashes.take(early)).toEqual({ newSecret: { kind: 'key', name: 'n', text: 'the secret' } });

    now += 2_000;
    expect(await flashes.take(late)).toEqual({});
  } finally {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  }
});

test.each([
  ['is cut off', false, 200, [true, true, false]],
  ['is an error', true, 500, [true, true, false]],
  ['is complete', true, 200, [true, false, false]],
])(
  'R106 a flash is shown once, unless the first response failed: a response that %s',
  async (_description, isComplete, status, shown) => {
    const directory = mkdtempSync(join(tmpdir(), 'gatehouse-test-'));
    const store = await createSqliteStore({ directory, clock: Date.now, random: Math.random });
    const flashes = createFlashes({ store, sealedJson: createSealedJson(makeSealer()) });
    const taken: boolean[] = [];
    const server = createServer(async (req, res) => {
      Object.assign(req, { res, context: { session: { ref: 'session' } } });
      taken.push((await flashes.take(req as unknown as Request)).newSecret !== undefined);
      // Only the first response fails.
      res.statusCode = taken.length === 1 ? status : 200;
      if (taken.length > 1 || isComplete) return void res.end('page');
      res.write('half a page');
      res.destroy();
    });
    try {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const session = { url: '/', context: { session: { ref: 'session' } } } as unknown as Request;
      const path = await flashes.save(session, '/page', { newSecret: { kind: 'key', name: 'n', text: 'the secret' } });
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
      for (let request = 0; request < 3; request += 1) {
        await fetch(url)
          .then((response) => response.text())
          .catch(() => undefined);
        // A flash that was not shown is stored again after the response.
        await setTimeout(100);
      }
      expect(taken).toEqual(shown);
    } finally {
      server.close();
      await store.close();
      rmSync(directory, { recursive: true, force: true });
    }
  },
);
