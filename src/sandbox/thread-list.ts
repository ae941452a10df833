/** Pages of a user's threads. A cursor names the thread beside the page, so that new threads move no page. */
import { z } from 'zod';
import type { ThreadDocument } from './threads.ts';

export interface ThreadPage {
  threads: ThreadDocument[];
  /** The cursor of the next page; absent on the last one. */
  next?: string;
  /** The cursor of the previous page; absent on the first one. */
  prev?: string;
}

const cursorSchema = z.tuple([z.enum(['after', 'before']), z.string()]);

/** @param threads all that the user may see, in order @returns undefined for a cursor that was not issued for them */
export function pageOf(threads: readonly ThreadDocument[], limit: number, cursor?: string): ThreadPage | undefined {
  const bounds = cursor === undefined ? { start: 0, end: limit } : boundsOf(threads, limit, cursor);
  if (bounds === undefined) return undefined;
  const { start, end } = bounds;
  const page = threads.slice(start, end);
  const [first, last] = [page[0], page.at(-1)];
  return {
    threads: page,
    ...(last && end < threads.length ? { next: cursorOf('after', last) } : {}),
    ...(first && start > 0 ? { prev: cursorOf('before', first) } : {}),
  };
}

function boundsOf(threads: readonly ThreadDocument[], limit: number, cursor: string) {
  const parsed = cursorSchema.safeParse(Buffer.from(cursor, 'base64url').toString().split(':'));
  if (!parsed.success) return undefined;
  const [side, id] = parsed.data;
  const index = threads.findIndex(({ thread }) => thread.id === id);
  if (index === -1) return undefined;
  return side === 'after'
    ? { start: index + 1, end: index + 1 + limit }
    : { start: Math.max(0, index - limit), end: index };
}

/** Encoded, so that clients take it from `Link` and do not build it themselves. */
function cursorOf(side: 'after' | 'before', { thread }: ThreadDocument): string {
  return Buffer.from(`${side}:${thread.id}`).toString('base64url');
}
