/** Appends one entry to a log of a store. */
import type { Store } from '../../src/shared/storage/store.ts';

/** @returns the id of the entry */
export async function appendTo(
  store: Pick<Store, 'append'>,
  log: string,
  entry: string,
  at: number,
  indexes: readonly string[] = [],
): Promise<string> {
  const [id = ''] = await store.append(log, [{ entry, at, indexes }]);
  return id;
}
