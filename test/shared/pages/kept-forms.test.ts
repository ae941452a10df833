/** Submitted forms are sealed in the store, for an hour, for the session and the page that they belong to. */
import type { Request } from 'express';
import { describe, expect, test } from 'vitest';
import { createKeptForms } from '../../../src/shared/pages/kept-forms.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { createTestStorage } from '../../support/test-storage.ts';

const KEPT = { status: 400, form: { values: { name: 'what was typed' }, faults: [] } };

const reqOf = (url: string, ref: string | null = 'session') => {
  const path = url.split('?')[0];
  return {
    url,
    headers: {},
    baseUrl: '',
    path,
    context: { session: ref === null ? undefined : { ref } },
  } as unknown as Request;
};

describe.each(['SQLite', 'Redis'] as const)('on %s', (kind) => {
  test('R140 a form is sealed, and is read each time by its session on its page', async (context) => {
    skipIfMissing(context, kind === 'Redis' ? missingRedis : undefined);
    const storage = await createTestStorage(kind);
    try {
      await storage.withStore(async (store) => {
        const keptForms = createKeptForms({ store, sealedJson: createSealedJson(makeSealer()) });
        const url = await keptForms.save(reqOf('/admin/x'), '/admin/x/new?preset=zoom', KEPT);
        expect(await keptForms.read(reqOf('/admin/x/new?form=__proto__'))).toBeUndefined();
        expect(url).toMatch(/^\/admin\/x\/new\?preset=zoom&form=[\w-]{22}$/);
        for await (const records of store.walk()) expect(JSON.stringify(records)).not.toContain('typed');
        for (const _time of ['first', 'reload']) expect(await keptForms.read(reqOf(url))).toEqual(KEPT);
        for (const other of [
          reqOf(url, 'another session'),
          reqOf(url, null),
          reqOf(url.replace('/x/', '/y/')),
          reqOf(url.slice(0, -1)),
          reqOf('/admin/x/new'),
        ])
          expect(await keptForms.read(other)).toBeUndefined();
        const { status } = KEPT;
        const urls = await Promise.all(
          Array.from({ length: 8 }, (_, n) => keptForms.save(reqOf('/'), '/admin/x/new', { status, form: n })),
        );
        const forms = await Promise.all(urls.map(async (saved) => (await keptForms.read(reqOf(saved)))?.form));
        expect(forms).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
        expect(await keptForms.read(reqOf(url))).toBeUndefined();
        // The longest that a body can hold, eight times.
        const long = { status, form: 'ä'.repeat(32_000) };
        for (let n = 0; n < 9; n += 1) await keptForms.save(reqOf('/'), '/admin/x/new', long);
        const lost = createKeptForms({ store, sealedJson: createSealedJson(makeSealer()) });
        expect(await lost.read(reqOf(url))).toBeUndefined();
      });
    } finally {
      await storage.dispose();
    }
  });
});
