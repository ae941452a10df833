/** Finds users by the beginning of their name, of a word in it, or of their e-mail address, id or subject. */
import { keys } from '../../shared/storage/keys.ts';
import { encodeCursor } from '../../shared/storage/paging.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { cutText } from '../../shared/text.ts';

/** The fields of a user that are searched. */
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

/** A page of users. It may have fewer items than the limit, or none, even if there is a `next`. */
export interface MatchingUsers<U> {
  /** `cursor`: a page after it begins with the next user. */
  items: { user: U; cursor: string }[];
  next?: string;
}

const MAX_TERMS = 10;
const MAX_TERM_LENGTH = 100;
const TERMS_PER_READ = 250;
/** Bounds the work for one page. */
const MAX_TERMS_READ = 1_000;
/** Separates the term from the user id. Terms cannot contain it, and it sorts before every character that they can. */
const END = '\t';

/**
 * Creates the search.
 * @param find reads a user; returns undefined for one who was deleted after the index was written
 */
export function createUserSearch<U extends Searchable>(
  store: Pick<Store, 'page'>,
  find: (id: string) => Promise<U | undefined>,
) {
  return async ({ q, after, limit }: PageRequest & { q: string }): Promise<MatchingUsers<U>> => {
    const prefix = normalised(q);
    const items: MatchingUsers<U>['items'] = [];
    let cursor = after ?? encodeCursor({ score: 0, member: prefix });
    for (let read = 0; read < MAX_TERMS_READ; read += TERMS_PER_READ) {
      // The first read is enough, unless most of its terms belong to users who are listed under another term.
      const size = read === 0 ? limit + 1 : TERMS_PER_READ;
      const batch = await store.page(keys.userNames, { limit: size, after: cursor });
      const terms = batch.items.filter(({ member }) => member.startsWith(prefix));
      const users = await Promise.all(terms.map(({ member }) => find(member.slice(member.indexOf(END) + 1))));
      for (const [at, term] of terms.entries()) {
        if (items.length === limit) return { items, next: cursor };
        cursor = encodeCursor(term);
        const user = users[at];
        // Several terms of one user may start with the prefix: the user is listed under the first of them.
        if (user && termsOf(user).find((text) => text.startsWith(prefix)) === term.member) items.push({ user, cursor });
      }
      if (batch.next === undefined || terms.length < batch.items.length) return { items };
    }
    return { items, next: cursor };
  };
}

/** Returns the writes that update the index after a change of a user. @param newUser undefined for a deleted user */
export function termChanges(oldUser: Searchable | undefined, newUser: Searchable | undefined): Write[] {
  const [oldTerms, newTerms] = [oldUser ? termsOf(oldUser) : [], newUser ? termsOf(newUser) : []];
  return [
    ...newTerms
      .filter((term) => !oldTerms.includes(term))
      .map((term) => ({ index: keys.userNames, add: term, score: 0 })),
    ...oldTerms.filter((term) => !newTerms.includes(term)).map((term) => ({ index: keys.userNames, remove: term })),
  ];
}

/** Returns the search terms of a user, sorted, each followed by the user's id. */
function termsOf({ id, name = '', email = '', subject }: Searchable): string[] {
  const words = name.split(/\s+/).slice(1);
  const texts = [name, email, id, subject, ...words].map(normalised).filter((text) => text !== '');
  return [...new Set(texts)]
    .slice(0, MAX_TERMS)
    .map((text) => `${text}${END}${id}`)
    .sort();
}

export function normalised(text: string): string {
  const term = text
    .normalize('NFKC')
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .toLowerCase()
    .toWellFormed();
  return cutText(term, MAX_TERM_LENGTH);
}
