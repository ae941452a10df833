/** The names that keys have in Redis: the store's own beside those of the port, and a prefix where one Redis serves several. */

import { keyTag } from '../key-tag.ts';

export interface RedisNames {
  of(key: string): string;
  /** Under what key of the port this is kept; undefined where it is the store's own or another's. */
  keyOf(name: string): string | undefined;
  /** For `SCAN`: matches all names of this store, and those of its own. */
  pattern: string;
  /** Remembers the versions of what was deleted under the key's tag, and lies in the same slot. */
  floorOf(key: string): string;
  /** Written to see whether writing is possible. */
  probes: readonly string[];
}

/** One in each sixteenth of a cluster's slots, so that each of up to sixteen equal masters has one at least. */
const PROBE_TAGS = 'afb adh aak abb afc adi aaj abc afd adj aai abd afa adk aah aba'.split(' ');

/** Prefixes of other programs that may use the same Redis beside a store without one. */
const OTHERS = /^bin-service:/;

/** @param prefix without braces, which would change the slots */
export function createRedisNames(prefix: string): RedisNames {
  if (/[{}]/.test(prefix)) throw new TypeError('The prefix of keys must hold no brace.');
  return {
    of: (key) => `${prefix}${key}`,
    keyOf(name) {
      const key = name.startsWith(prefix) ? name.slice(prefix.length) : '~';
      return key.startsWith('~') || OTHERS.test(key) ? undefined : key;
    },
    pattern: `${prefix.replace(/[*?[\]^\\-]/g, '\\$&')}*`,
    floorOf: (key) => `${prefix}~floor:{${keyTag(`${prefix}${key}`)}}`,
    probes: PROBE_TAGS.map((tag) => `${prefix}~probe:{${tag}}`),
  };
}
