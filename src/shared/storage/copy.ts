/**
 * Copies that both kinds of stores can load: log entries are numbered, and data that belongs only to the source is
 * omitted.
 */
import { keys, kindOf, LOG_OF_INDEX } from './keys.ts';
import { retryWhileUnavailable } from './retry.ts';
import { withoutIdentity } from './schema-version.ts';
import type { CopyItem, Store } from './store.ts';

/**
 * Returns everything in the store, except its identity and its out-of-service record. The id of a log entry is its
 * position among all entries of the copy, counted from 1. Index members that are ids of log entries become positions,
 * too, and are omitted if their entry does not exist.
 */
export async function* copyOut(store: Store): AsyncGenerator<CopyItem[]> {
  const positions = new Map<string, number>();
  const toPortable = (item: CopyItem): CopyItem[] => {
    if ('log' in item) {
      const position = positions.size + 1;
      positions.set(`${item.log} ${item.id}`, position);
      return [{ ...item, id: String(position) }];
    }
    const log = logOf(item);
    if (log !== undefined && 'index' in item) {
      const position = positions.get(`${log} ${item.member}`);
      return position === undefined ? [] : [{ ...item, member: String(position) }];
    }
    if (!('record' in item)) return [item];
    if (item.record === keys.schema) return [{ ...item, value: withoutIdentity(item.value) }];
    return item.record === keys.outOfService ? [] : [item];
  };
  for await (const items of store.dump()) {
    const portable = items.flatMap(toPortable);
    if (portable.length > 0) yield portable;
  }
}

/**
 * Writes items of a copy to a store that no other process uses. Waits up to a minute while the store is unavailable.
 */
export async function copyIn(store: Store, items: readonly CopyItem[]): Promise<void> {
  const withStoreIds = items.map((item): CopyItem => {
    if ('log' in item) return { ...item, id: store.logIdAt(Number(item.id)) };
    return 'index' in item && logOf(item) !== undefined
      ? { ...item, member: store.logIdAt(Number(item.member)) }
      : item;
  });
  await retryWhileUnavailable(() => store.load(withStoreIds));
}

/** Returns the log whose entries the item's index lists; undefined if the item belongs to no such index. */
function logOf(item: CopyItem): string | undefined {
  return 'index' in item ? LOG_OF_INDEX[kindOf(item.index)] : undefined;
}
