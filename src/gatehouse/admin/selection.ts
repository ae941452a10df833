/** What was selected in a list, or the one item that the path names; and work on each of them that is still there. */
import type { Request } from 'express';
import { AppError } from '../../shared/errors.ts';
import { idsOf } from './confirmation.ts';

export interface Selection<T> {
  items: readonly T[];
  /** How many of those that were selected are no longer there. */
  gone: number;
}

/**
 * A form that selects several is done even if nothing is left of them: its page may have been open for a while.
 * @param throwGone throws AppError `not_found`
 */
export async function selectionOf<T>(
  req: Request,
  find: (id: string) => Promise<T | undefined>,
  throwGone: () => never,
): Promise<Selection<T>> {
  const ids = req.params.id === undefined ? idsOf(req) : [String(req.params.id)];
  const items = (await Promise.all(ids.map(find))).filter((item) => item !== undefined);
  if (items.length === 0 && (req.method !== 'POST' || ids.length < 2)) throwGone();
  return { items, gone: ids.length - items.length };
}

/**
 * Works on some items at once, and goes on past those for which `work` throws AppError `not_found`: another administrator, or
 * the user, was faster.
 */
export async function workOnEach<T, R>(
  { items, gone }: Selection<T>,
  work: (item: T) => Promise<R>,
): Promise<{ done: R[]; gone: number }> {
  const done: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    for (const one of await Promise.allSettled(items.slice(at, at + AT_ONCE).map(work))) {
      if (one.status === 'fulfilled') done.push(one.value);
      else if (!isGone(one.reason) || items.length + gone === 1) throw one.reason;
    }
  }
  return { done, gone: gone + items.length - done.length };
}

const AT_ONCE = 10;

const isGone = (error: unknown) => error instanceof AppError && error.code === 'not_found';

/** The text of a notice. @param textOf of what was done, for one item or more */
export function withGone<R>({ done, gone }: { done: readonly R[]; gone: number }, textOf: () => string): string {
  if (gone === 0) return textOf();
  const others = `${gone} ${gone === 1 ? 'was' : 'were'} already gone.`;
  return done.length === 0 ? `Nothing was left to do: ${others}` : `${textOf()} ${others}`;
}
