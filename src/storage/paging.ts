/** Pages of indexes and logs, alike on every store: how many, what comes after, and the position after which an index goes on. */

import { AppError } from '../errors.ts';
import { parseJson } from '../json.ts';

export interface IndexPosition {
  score: number;
  member: string;
}

export function encodeCursor({ score, member }: IndexPosition): string {
  return Buffer.from(JSON.stringify([score, member])).toString('base64url');
}

/** Cursors come back from outside, so a foreign one is the caller's mistake: `AppError('invalid_request')`. */
export function decodeCursor(cursor: string): IndexPosition {
  const parts = parseJson(Buffer.from(cursor, 'base64url').toString());
  if (Array.isArray(parts) && parts.length === 2) {
    const [score, member] = parts;
    if (typeof score === 'number' && typeof member === 'string') return { score, member };
  }
  throw invalidCursor();
}

/** @param found one more than the limit, where there are so many */
export function pageOf<T>(
  found: readonly T[],
  limit: number,
  cursorOf: (last: T) => string,
): { items: T[]; next?: string } {
  const items = found.slice(0, limit);
  const last = items.at(-1);
  return found.length > limit && last !== undefined ? { items, next: cursorOf(last) } : { items };
}

export function assertLimit(limit: number): number {
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new TypeError('The limit of a page must be a whole number from 1.');
  return limit;
}

export function assertScore(score: number): number {
  if (!Number.isFinite(score)) throw new TypeError('The score of an index member must be a finite number.');
  return score;
}

export function assertTime(at: number): number {
  if (!Number.isFinite(at)) throw new TypeError('The time of a log entry must be a finite number.');
  return at;
}

export function invalidCursor(): AppError {
  return new AppError('invalid_request', { detail: 'The cursor is not one of this list. Start again without it.' });
}
