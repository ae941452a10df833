/** Finds users by the first letters of a name, of a word of a name, of an address, an id or a subject. */
import { keys } from '../../shared/storage/keys.ts';
import { encodeCursor } from '../../shared/storage/paging.ts';
import type { Store, Write } from '../../shared/storage/store.ts';

/** What a user is found by. */
interface Searchable {
  id: string;
  subject: string;
  name?: string | undefined;
  email?: string | undefined;
}

export interface PageRequest {
  after?: string | undefined;
  limit: number;
  q?: string | undefined;
}

/** May have fewer items than the limit, even none, although there is a `next`. */
export interface MatchingUsers<U> {
  /** `cursor`: the place after this user. */
  items: { user: U; cursor: string }[];
  next?: string;
}

const MAX_TERMS = 10;
const MAX_TERM_CHARACTERS = 100;
const TERMS_AT_ONCE = 250;
/** Bounds the work for one page. */
const MAX_TERMS_READ = 1_000;
/** Separates the term from the user id. Terms cannot contain it, and it sorts before every character that they can. */
const END = '\t';

/** @param find reads a user, who may have been deleted since the index was written */
export function createUserSearch<U extends Searchable>(
  store: Pick<Store, 'page'>,
  find: (id: string) => Promise<U | undefined>,
) {
  return async ({ q, after, limit }: PageRequest & { q: string }): Promise<MatchingUsers<U>> => {
    const prefix = normalised(q);
    const items: MatchingUsers<U>['items'] = [];
    let cursor = after ?? encodeCursor({ score: 0, member: prefix });
    for (let read = 0; read < MAX_TERMS_READ; read += TERMS_AT_ONCE) {
      // The first read is enough, unless most of the terms belong to users who are listed at another term.
      const size = read === 0 ? limit + 1 : TERMS_AT_ONCE;
      const batch = await store.page(keys.userNames, { limit: size, after: cursor });
      const terms = batch.items.filter(({ member }) => member.startsWith(prefix));
      const found = await Promise.all(terms.map(({ member }) => find(member.slice(member.indexOf(END) + 1))));
      for (const [at, term] of terms.entries()) {
        if (items.length === limit) return { items, next: cursor };
        cursor = encodeCursor(term);
        const user = found[at];
        // Several terms of one user may start with the prefix: list the user at the first of them.
        if (user && termsOf(user).find((one) => one.startsWith(prefix)) === term.member) items.push({ user, cursor });
      }
      if (batch.next === undefined || terms.length < batch.items.length) return { items };
    }
    return { items, next: cursor };
  };
}

/** The steps that bring the index from one state of a user to another. @param after undefined for a user who is deleted */
export function termChanges(before: Searchable | undefined, after: Searchable | undefined): Write[] {
  const [past, now] = [before ? termsOf(before) : [], after ? termsOf(after) : []];
  return [
    ...now.filter((term) => !past.includes(term)).map((term) => ({ index: keys.userNames, add: term, score: 0 })),
    ...past.filter((term) => !now.includes(term)).map((term) => ({ index: keys.userNames, remove: term })),
  ];
}

/** The search terms of a user, sorted, each followed by the user's id. */
function termsOf({ id, name = '', email = '', subject }: Searchable): string[] {
  const words = name.split(/\s+/).slice(1);
  const texts = [name, email, id, subject, ...words].map(normalised).filter((text) => text !== '');
  return [...new Set(texts)]
    .slice(0, MAX_TERMS)
    .map((text) => `${text}${END}${id}`)
    .sort();
}

export function normalised(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .toLowerCase()
    .toWellFormed()
    .slice(0, MAX_TERM_CHARACTERS);
}
