/** A finder of the search: what it finds of a kind of record, and where those are listed. */

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
  /** The path of the list that the same text narrows; undefined if it does not find these there. */
  list: (q: string) => string | undefined;
}

export const MAX_HITS = 5;

/** Addresses have dots, as `USER.REST` has, the form of the ids of sessions. */
export const isAddress = (q: string) => q.includes('@');

export function isOneOf(q: string, ...texts: (string | undefined)[]): boolean {
  return texts.some((text) => text?.toLowerCase() === q.toLowerCase());
}
