/** A cached record is used only while the store has the same version. */
import { expect, test } from 'vitest';
import { createOpenedRecords } from '../../../src/shared/storage/opened-records.ts';

test('each version of a record is opened once, with `find` as well as with `read` and `finish`', async () => {
  let stored: { value: string; version: number } | undefined = { value: 'first', version: 1 };
  const cache = new Map<string, { text: string; version: number }>();
  let opens = 0;
  const records = createOpenedRecords({
    store: { getIfChanged: async (_key, version) => (stored?.version === version ? 'unchanged' : stored) },
    cache,
    async open(key, { value, version }) {
      opens += 1;
      const opened = { text: value, version };
      cache.set(key, opened);
      return opened;
    },
  });
  const first = await records.find('one');
  expect(first).toEqual({ text: 'first', version: 1 });
  expect(await records.find('one')).toBe(first);
  expect(await records.finish(records.read('one'))).toBe(first);
  expect(opens).toBe(1);

  stored = { value: 'second', version: 2 };
  expect(await records.finish(records.read('one'))).toMatchObject({ text: 'second' });
  expect(opens).toBe(2);

  stored = undefined;
  expect(await records.find('one')).toBeUndefined();
  expect(await records.find('two')).toBeUndefined();
});
