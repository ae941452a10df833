/** A finder of the search: what it finds of a kind of record, and where those are listed. */
import type { MatchingOptions, MatchingPage } from '../../../shared/storage/matching-page.ts';
import { matches } from '../listing.ts';

export interface Hit {
  id: string;
  name: string;
  detail: string | null;
  /** Of its page, below the public address. */
  path: string;
  /** The text names this record as a whole, by an id, a name or an address. */
  exact: boolean;
}

/** @param q never empty. Returns one hit more than `MAX_HITS` if there are more. */
export type Find = (q: string) => Promise<Hit[]>;

export interface Finder {
  kind: string;
  title: string;
  find: Find;
  /** The path of the list with the same text as its search; undefined if it does not find these there. */
  list: (q: string) => string | undefined;
}

export const MAX_HITS = 5;
/** Bounds the work where administrators have created very many. */
const MAX_READ = 2_000;

export const listWith = (path: string) => (q: string) => `/admin/${path}?q=${encodeURIComponent(q)}`;

/** Addresses have dots, as `USER.REST` has, the form of the ids of sessions. */
export const isAddress = (q: string) => q.includes('@');

export function isOneOf(q: string, ...texts: (string | undefined)[]): boolean {
  return texts.some((text) => text?.toLowerCase() === q.toLowerCase());
}

/** Of records that administrators create: by id, with its prefix or without, and by text in them. */
export function findByText<T extends { id: string }>(about: {
  records: { page: (options: MatchingOptions<T>) => Promise<MatchingPage<T>> };
  prefix?: string;
  /** `detail`: the id unless given. */
  foundAs: (item: T) => { name: string; detail?: string };
  pathOf: (id: string) => string;
}): Find {
  const { records, prefix = '', foundAs, pathOf } = about;
  return async (q) => {
    const wanted = prefix !== '' && q.startsWith(prefix) ? q.slice(prefix.length) : q;
    const filter = (item: T) => matches(wanted, item.id, foundAs(item).name);
    const { items } = await records.page({ limit: MAX_HITS + 1, maxRead: MAX_READ, filter });
    return items.map((item) => {
      const { name, detail = `${prefix}${item.id}` } = foundAs(item);
      return { id: item.id, name, detail, path: pathOf(item.id), exact: wanted === item.id || isOneOf(q, name) };
    });
  };
}
