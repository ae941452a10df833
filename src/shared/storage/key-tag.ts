/**
 * The keys that a write changes, and the tag of a key: the part that decides its cluster slot (Redis Cluster
 * specification, "Hash tags").
 */
import type { Write } from './store.ts';

/** Returns the text between the first `{` and the next `}`, or the whole key if there is none. */
export function keyTag(key: string): string {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

/** @throws TypeError unless all keys have one tag, so that a mistake fails on every store and not only on a cluster */
export function assertOneTag(keys: readonly string[]): void {
  const tags = new Set(keys.map(keyTag));
  if (tags.size > 1) throw new TypeError(`Keys that change together need one {tag}; these have ${tags.size}.`);
}

/** Returns the key of the record or index that a step changes or requires. @throws TypeError if one step does both */
export function keyOf(step: Write): string {
  if ('exists' in step) {
    if (Object.keys(step).some((member) => member !== 'exists' && member !== 'version'))
      throw new TypeError('`exists` must be a separate step.');
    return step.exists;
  }
  if ('index' in step) return step.index;
  return 'put' in step ? step.put : step.delete;
}
