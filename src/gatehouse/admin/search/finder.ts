/** Finders: each searches one kind of record. */
import type { MatchingOptions, MatchingPage } from '../../../shared/storage/matching-page.ts';
import { matches } from '../listing.ts';

export interface SearchResult {
  id: string;
  name: string;
  detail: string | null;
  /** The path of the record's page, below the public address. */
  path: string;
  /** True if the searched text equals an id, a name or an address of the record. */
  exact: boolean;
}

/** Returns at most `MAX_RESULTS` + 1 results, so that the search knows whether there are more. @param q not empty */
export type Find = (q: string) => Promise<SearchResult[]>;

export interface Finder {
  kind: string;
  title: string;
  find: Find;
  /** Returns the path of the list, searched for the same text; undefined if the list has no such search. */
  list: (q: string) => string | undefined;
}

export const MAX_RESULTS = 5;
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
    const { items } = await records.page({ limit: MAX_RESULTS + 1, maxRead: MAX_READ, filter });
    return items.map((item) => {
      const { name, detail = `${prefix}${item.id}` } = searchResultOf(item);
      return { id: item.id, name, detail, path: pathOf(item.id), exact: text === item.id || equalsOneOf(q, name) };
    });
  };
}
