/** Notes when a record was last used: at most once a minute for each record and process, and only if the record still exists. */
import { remembered } from '../remembered.ts';
import type { Store } from './store.ts';

const INTERVAL_MS = 60_000;
const MAX_NOTES = 10_000;

/** @param parts `keyOf`: of the record; `noteKeyOf`: of the note; `clock`: milliseconds since the epoch */
export function createUseNotes(parts: {
  store: Store;
  clock: () => number;
  keyOf: (id: string) => string;
  noteKeyOf: (id: string) => string;
}) {
  const { store, clock, keyOf, noteKeyOf } = parts;
  const notedAt = remembered<number>(MAX_NOTES);
  return {
    /** Never rejects. A request does not wait for it. */
    async note(id: string, text: string): Promise<void> {
      const now = clock();
      const last = notedAt.get(id);
      if (last !== undefined && now >= last && now - last < INTERVAL_MS) return;
      notedAt.set(id, now);
      try {
        // The record may have been removed during the request: then nothing is written.
        await store.write([{ exists: keyOf(id) }, { put: noteKeyOf(id), value: text }]);
      } catch {
        notedAt.delete(id);
      }
    },
    /** The text of the last note. */
    async last(id: string): Promise<string | undefined> {
      return (await store.get(noteKeyOf(id)))?.value;
    },
  };
}
