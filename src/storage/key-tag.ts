/**
 * Which keys a write changes, and the tag of a key: the part that decides which cluster slot a key lies in (Redis Cluster
 * specification, "Hash tags").
 */
import type { Write } from './store.ts';

/** What stands between the first `{` and the next `}`, if anything does; otherwise the whole key. */
export function keyTag(key: string): string {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

/** Throws a TypeError unless all keys have one tag, so that a mistake shows on every store and not only on a cluster. */
export function assertOneTag(keys: readonly string[]): void {
  const tags = new Set(keys.map(keyTag));
  if (tags.size > 1) throw new TypeError(`Keys that change together need one {tag}; these have ${tags.size}.`);
}

/** The record or index that a step changes, or that it demands. Throws a TypeError where one step is to do both. */
export function keyOf(step: Write): string {
  if ('exists' in step) {
    if (Object.keys(step).length > 1) throw new TypeError('What a write demands is a step of its own.');
    return step.exists;
  }
  if ('index' in step) return step.index;
  return 'put' in step ? step.put : step.delete;
}
