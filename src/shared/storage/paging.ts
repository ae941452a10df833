/** Paging of indexes and logs, shared by all stores: limits, cursors and positions. */
import { AppError } from '../errors.ts';
import { parseJson } from '../json.ts';
import type { PageOptions, Store } from './store.ts';

interface IndexPosition {
  score: number;
  member: string;
}

export function encodeCursor({ score, member }: IndexPosition): string {
  return Buffer.from(JSON.stringify([score, member])).toString('base64url');
}

/** @throws AppError `invalid_request` for a cursor of another list, since cursors come from callers */
export function decodeCursor(cursor: string): IndexPosition {
  const parts = parseJson(Buffer.from(cursor, 'base64url').toString());
  if (Array.isArray(parts) && parts.length === 2) {
    const [score, member] = parts;
    if (typeof score === 'number' && typeof member === 'string') return { score, member };
  }
  throw invalidCursor();
}

/**
 * Returns the cursor at which a page of a list begins, newest first.
 * @param to the highest score of the list; `after` may come from a list with a higher one
 */
export function startOfPage(after: string | undefined, to: number | undefined): string | undefined {
  if (to === undefined || (after !== undefined && decodeCursor(after).score <= to)) return after;
  // The empty member is the last one of its score, so only lower scores follow.
  return encodeCursor({ score: to + 1, member: '' });
}

/** @param candidates the items of the page, and one more if another page follows */
export function pageOf<T>(
  candidates: readonly T[],
  limit: number,
  cursorOf: (last: T) => string,
): { items: T[]; next?: string } {
  const items = candidates.slice(0, limit);
  const last = items.at(-1);
  return candidates.length > limit && last !== undefined ? { items, next: cursorOf(last) } : { items };
}

/** Reads all pages of a list, one after the other. */
export async function* allPages<T>(
  read: (options: PageOptions) => Promise<{ items: T[]; next?: string }>,
  limit: number,
): AsyncGenerator<T[]> {
  let after: string | undefined;
  do {
    const { items, next } = await read(after === undefined ? { limit } : { limit, after });
    yield items;
    after = next;
  } while (after !== undefined);
}

/** Returns all members of an index, in its order. For lists that are usually short and must be complete. */
export async function allMembers(store: Pick<Store, 'page'>, index: string): Promise<string[]> {
  const pages = await Array.fromAsync(allPages((options) => store.page(index, options), 500));
  return pages.flat().map(({ member }) => member);
}

export function assertLimit(limit: number): number {
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new TypeError('The limit of a page must be a whole number of at least 1.');
  return limit;
}

/** Checks a score of an index member or a time of a log entry. */
export function assertFinite(value: number): number {
  if (!Number.isFinite(value)) throw new TypeError('A score or a time must be a finite number.');
  return value;
}

export function invalidCursor(): AppError {
  return new AppError('invalid_request', {
    detail: 'The cursor does not belong to this list. Start again without it.',
  });
}
