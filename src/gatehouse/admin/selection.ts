/** Actions on the items selected in a list, or on the one item that the path names. */
import type { Request } from 'express';
import { AppError } from '../../shared/errors.ts';
import { idsOf } from './confirmation.ts';

export interface Selection<T> {
  items: readonly T[];
  /** The number of selected items that no longer exist. */
  gone: number;
}

/**
 * A form that selects several items succeeds even if all of them are gone: its page may have been open for a while.
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
 * Processes the items, several at a time. Skips items for which `work` throws AppError `not_found`: another
 * administrator, or the user, was faster.
 */
export async function workOnEach<T, R>(
  { items, gone }: Selection<T>,
  work: (item: T) => Promise<R>,
): Promise<{ done: R[]; gone: number }> {
  const done: R[] = [];
  for (let at = 0; at < items.length; at += BATCH) {
    for (const result of await Promise.allSettled(items.slice(at, at + BATCH).map(work))) {
      if (result.status === 'fulfilled') done.push(result.value);
      else if (!isGone(result.reason) || items.length + gone === 1) throw result.reason;
    }
  }
  return { done, gone: gone + items.length - done.length };
}

const BATCH = 10;

const isGone = (error: unknown) => error instanceof AppError && error.code === 'not_found';

/** The text of a notice. @param textOf the sentence about the processed items, if there are any */
export function withGone<R>({ done, gone }: { done: readonly R[]; gone: number }, textOf: () => string): string {
  if (gone === 0) return textOf();
  const goneText = `${gone} ${gone === 1 ? 'was' : 'were'} already gone.`;
  return done.length === 0 ? `Nothing to do: ${goneText}` : `${textOf()} ${goneText}`;
}
