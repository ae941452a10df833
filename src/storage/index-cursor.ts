/** Owns the cursors of index pages: the position after which a page goes on, whatever was added or removed since. */

import { AppError } from '../errors.ts';

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

export function invalidCursor(): AppError {
  return new AppError('invalid_request', { detail: 'The cursor is not one of this list. Start again without it.' });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
