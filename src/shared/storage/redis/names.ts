/** The names of keys in Redis: with a prefix if several programs use one Redis, and the store's own names. */
import { keyTag } from '../key-tag.ts';

export type RedisNames = ReturnType<typeof createRedisNames>;

/** One tag in each sixteenth of a cluster's slots, so that each of up to sixteen equal masters has at least one. */
const PROBE_TAGS = 'afb adh aak abb afc adi aaj abc afd adj aai abd afa adk aah aba'.split(' ');

/** Prefixes of other programs that may use the same Redis as a store without a prefix. */
const OTHERS = /^bin-service:/;

/** @param prefix without braces, which would change the slots */
export function createRedisNames(prefix: string) {
  if (/[{}]/.test(prefix)) throw new TypeError('The prefix of keys must hold no brace.');
  return {
    of: (key: string): string => `${prefix}${key}`,
    /** The key of this name. Undefined for the store's own names and for those of other programs. */
    keyOf(name: string): string | undefined {
      const key = name.startsWith(prefix) ? name.slice(prefix.length) : '~';
      return key.startsWith('~') || OTHERS.test(key) ? undefined : key;
    },
    /** For `SCAN`: matches all names of this store, its own included. */
    pattern: `${prefix.replace(/[*?[\]^\\-]/g, '\\$&')}*`,
    /** Keeps the versions of deleted records with the key's tag, and lies in the same slot. */
    floorOf: (key: string): string => `${prefix}~floor:{${keyTag(`${prefix}${key}`)}}`,
    /** Written to check that writing is possible. */
    probes: PROBE_TAGS.map((tag) => `${prefix}~probe:{${tag}}`),
    /** Show that no master of a cluster has lost its data. */
    marks: PROBE_TAGS.map((tag) => `${prefix}~mark:{${tag}}`),
  };
}
