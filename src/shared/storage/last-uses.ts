/** Records when a record was last used: at most once a minute for each record and process. */
import { remembered } from '../remembered.ts';
import type { Store } from './store.ts';

const INTERVAL_MS = 60_000;
const MAX_REMEMBERED = 10_000;

/**
 * @param parts `keyOf`: the key of the record; `useKeyOf`: the key of its last use; `clock`: milliseconds since the
 *   epoch
 */
export function createLastUses(parts: {
  store: Store;
  clock: () => number;
  keyOf: (id: string) => string;
  useKeyOf: (id: string) => string;
}) {
  const { store, clock, keyOf, useKeyOf } = parts;
  const recordedAt = remembered<number>(MAX_REMEMBERED);
  return {
    /** Records a use. Never rejects, so requests need not wait for it. */
    async record(id: string, text: string): Promise<void> {
      const now = clock();
      const lastAt = recordedAt.get(id);
      if (lastAt !== undefined && now >= lastAt && now - lastAt < INTERVAL_MS) return;
      recordedAt.set(id, now);
      try {
        // Nothing is written if the record was removed during the request.
        await store.write([{ exists: keyOf(id) }, { put: useKeyOf(id), value: text }]);
      } catch {
        recordedAt.delete(id);
      }
    },
    /** Returns the text that was last recorded. */
    async read(id: string): Promise<string | undefined> {
      return (await store.get(useKeyOf(id)))?.value;
    },
  };
}
