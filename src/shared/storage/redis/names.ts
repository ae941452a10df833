/** The names of keys in Redis: with a prefix if several programs use one Redis, and the store's own names. */
import { keyTag } from '../key-tag.ts';

export interface RedisNames {
  of(key: string): string;
  /** The key of this name. Undefined for the store's own names and for those of other programs. */
  keyOf(name: string): string | undefined;
  /** For `SCAN`: matches all names of this store, its own included. */
  pattern: string;
  /** Keeps the versions of deleted records with the key's tag, and lies in the same slot. */
  floorOf(key: string): string;
  /** Written to check that writing is possible. */
  probes: readonly string[];
  /** Show that no master of a cluster has lost its data. */
  marks: readonly string[];
}

/** One tag in each sixteenth of a cluster's slots, so that each of up to sixteen equal masters has at least one. */
const PROBE_TAGS = 'afb adh aak abb afc adi aaj abc afd adj aai abd afa adk aah aba'.split(' ');

/** Prefixes of other programs that may use the same Redis as a store without a prefix. */
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
    marks: PROBE_TAGS.map((tag) => `${prefix}~mark:{${tag}}`),
  };
}
