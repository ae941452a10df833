/**
 * The names of keys in Redis: with a prefix if several programs share one Redis, and the internal names of the store.
 */
import { keyTag } from '../key-tag.ts';

export interface RedisNames {
  of(key: string): string;
  /** Returns the key of a name; undefined for internal names and for names of other programs. */
  keyOf(name: string): string | undefined;
  /** A pattern for `SCAN` that matches all names of this store, including internal ones. */
  pattern: string;
  /** Returns the name of the record that keeps the versions of deleted records with the key's tag, in the same slot. */
  floorOf(key: string): string;
  /** Names that are written to check that writes are possible. */
  probes: readonly string[];
  /** Names whose values show that no master of a cluster has lost its data. */
  marks: readonly string[];
}

/**
 * One tag in each sixteenth of a cluster's slots, so that each of up to 16 masters with equal shares has at least one.
 */
const PROBE_TAGS = 'afb adh aak abb afc adi aaj abc afd adj aai abd afa adk aah aba'.split(' ');

/** Prefixes of other programs that may share a Redis with a store without a prefix. */
const OTHER_PREFIXES = /^bin-(?:lookup-)?service:/;

/** @param prefix without braces, which would change the slots */
export function createRedisNames(prefix: string): RedisNames {
  if (/[{}]/.test(prefix)) throw new TypeError('The prefix of keys must not contain a brace.');
  return {
    of: (key) => `${prefix}${key}`,
    keyOf(name) {
      const key = name.startsWith(prefix) ? name.slice(prefix.length) : '~';
      return key.startsWith('~') || OTHER_PREFIXES.test(key) ? undefined : key;
    },
    pattern: `${prefix.replace(/[*?[\]^\\-]/g, '\\$&')}*`,
    floorOf: (key) => `${prefix}~floor:{${keyTag(`${prefix}${key}`)}}`,
    probes: PROBE_TAGS.map((tag) => `${prefix}~probe:{${tag}}`),
    marks: PROBE_TAGS.map((tag) => `${prefix}~mark:{${tag}}`),
  };
}
