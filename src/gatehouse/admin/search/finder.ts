/** Finders: each searches one kind of record. */
import type { MatchingOptions, MatchingPage } from '../../../shared/storage/matching-page.ts';
import { matches } from '../listing.ts';

export interface Hit {
  id: string;
  name: string;
  detail: string | null;
  /** The path of its page, below the public address. */
  path: string;
  /** The text equals an id, a name or an address of this record. */
  exact: boolean;
}

/** @param q not empty @returns `MAX_HITS` + 1 hits if there are more */
export type Find = (q: string) => Promise<Hit[]>;

export interface Finder {
  kind: string;
  title: string;
  find: Find;
  /** The path of the list, searched for the same text; undefined if the list has no such search. */
  list: (q: string) => string | undefined;
}

export const MAX_HITS = 5;
/** Limits the number of records that a search reads. */
const MAX_READ = 2_000;

export const listWith = (path: string) => (q: string) => `/admin/${path}?q=${encodeURIComponent(q)}`;

/** Distinguishes e-mail addresses from session ids (`USER.REST`), which also contain a dot. */
export const isAddress = (q: string) => q.includes('@');

export function equalsOneOf(q: string, ...texts: (string | undefined)[]): boolean {
  return texts.some((text) => text?.toLowerCase() === q.toLowerCase());
}

/** Finds records that administrators create by id, with or without its prefix, and by name. */
export function findByText<T extends { id: string }>(parts: {
  records: { page: (options: MatchingOptions<T>) => Promise<MatchingPage<T>> };
  prefix?: string;
  /** `detail` is the id by default. */
  searchResultOf: (item: T) => { name: string; detail?: string };
  pathOf: (id: string) => string;
}): Find {
  const { records, prefix = '', searchResultOf, pathOf } = parts;
  return async (q) => {
    const text = prefix !== '' && q.startsWith(prefix) ? q.slice(prefix.length) : q;
    const filter = (item: T) => matches(text, item.id, searchResultOf(item).name);
    const { items } = await records.page({ limit: MAX_HITS + 1, maxRead: MAX_READ, filter });
    return items.map((item) => {
      const { name, detail = `${prefix}${item.id}` } = searchResultOf(item);
      return { id: item.id, name, detail, path: pathOf(item.id), exact: text === item.id || equalsOneOf(q, name) };
    });
  };
}
