/** Notes when a record was last used: at most once a minute for each record and process, and only while the record is there. */
import { remembered } from '../remembered.ts';
import type { Store } from './store.ts';

export interface UseNotes {
  /** Never rejects. A request does not wait for it. */
  note(id: string, text: string): Promise<void>;
  /** The text of the last note. */
  last(id: string): Promise<string | undefined>;
}

const USE_MILLISECONDS = 60_000;
const MAX_NOTES = 10_000;

/** @param parts `keyOf`: of the record; `noteKeyOf`: of the note; `clock`: milliseconds since the epoch */
export function createUseNotes(parts: {
  store: Store;
  clock: () => number;
  keyOf: (id: string) => string;
  noteKeyOf: (id: string) => string;
}): UseNotes {
  const { store, clock, keyOf, noteKeyOf } = parts;
  const notedAt = remembered<number>(MAX_NOTES);
  return {
    async note(id, text) {
      const now = clock();
      const last = notedAt.get(id);
      if (last !== undefined && now >= last && now - last < USE_MILLISECONDS) return;
      notedAt.set(id, now);
      try {
        // A call may end after the record was removed: then nothing is left behind.
        await store.write([{ exists: keyOf(id) }, { put: noteKeyOf(id), value: text }]);
      } catch {
        notedAt.delete(id);
      }
    },
    async last(id) {
      return (await store.get(noteKeyOf(id)))?.value;
    },
  };
}
