/** Copies that each kind of store can load: log entries are numbered, and what belongs to the source is left out. */
import { keys, kindOf, LOG_OF_INDEX } from './keys.ts';
import { retryWhileUnavailable } from './retry.ts';
import { withoutIdentity } from './schema-version.ts';
import type { KeptItem, Store } from './store.ts';

/**
 * What the store holds, except its identity and the note that it is out of service. The id of a log entry is its place
 * among all entries of the copy, from 1 on. Members of indexes that are ids of log entries are places, too; those without
 * an entry are left out.
 */
export async function* copyOut(store: Store): AsyncGenerator<KeptItem[]> {
  const places = new Map<string, number>();
  const placed = (item: KeptItem): KeptItem[] => {
    if ('log' in item) {
      const place = places.size + 1;
      places.set(`${item.log} ${item.id}`, place);
      return [{ ...item, id: String(place) }];
    }
    const log = logOf(item);
    if (log !== undefined && 'index' in item) {
      const place = places.get(`${log} ${item.member}`);
      return place === undefined ? [] : [{ ...item, member: String(place) }];
    }
    if (!('record' in item)) return [item];
    if (item.record === keys.schema) return [{ ...item, value: withoutIdentity(item.value) }];
    return item.record === keys.outOfService ? [] : [item];
  };
  for await (const items of store.dump()) {
    const copied = items.flatMap(placed);
    if (copied.length > 0) yield copied;
  }
}

/** Writes items of a copy into a store that no other process uses. Waits up to a minute if the store does not respond. */
export async function copyIn(store: Store, items: readonly KeptItem[]): Promise<void> {
  const named = items.map((item): KeptItem => {
    if ('log' in item) return { ...item, id: store.logIdAt(Number(item.id)) };
    return 'index' in item && logOf(item) !== undefined
      ? { ...item, member: store.logIdAt(Number(item.member)) }
      : item;
  });
  await retryWhileUnavailable(() => store.load(named));
}

/** The log whose entries are the members of this index. */
function logOf(item: KeptItem): string | undefined {
  return 'index' in item ? LOG_OF_INDEX[kindOf(item.index)] : undefined;
}
