/** Actions on the items selected in a list, or on the one item that the path names. */
import type { Request } from 'express';
import { AppError } from '../../shared/errors.ts';
import { idsOf } from './confirmation.ts';

export interface Selection<T> {
  items: readonly T[];
  /** The number of selected items that no longer exist. */
  goneCount: number;
}

/**
 * Finds the selected items. A form that selects several items succeeds even if all of them are gone, because its page
 * may have been open for a while.
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
  return { items, goneCount: ids.length - items.length };
}

/**
 * Processes the items, several at a time. Skips items for which `work` throws AppError `not_found`, because another
 * administrator or the user may have removed them meanwhile.
 */
export async function workOnEach<T, R>(
  { items, goneCount }: Selection<T>,
  work: (item: T) => Promise<R>,
): Promise<{ results: R[]; goneCount: number }> {
  const results: R[] = [];
  for (let start = 0; start < items.length; start += BATCH) {
    for (const outcome of await Promise.allSettled(items.slice(start, start + BATCH).map(work))) {
      if (outcome.status === 'fulfilled') results.push(outcome.value);
      else if (!isGone(outcome.reason) || items.length + goneCount === 1) throw outcome.reason;
    }
  }
  return { results, goneCount: goneCount + items.length - results.length };
}

const BATCH = 10;

const isGone = (error: unknown) => error instanceof AppError && error.code === 'not_found';

/** Returns the text of a notice. @param textOf returns the sentence about the processed items, if there are any */
export function withGone<R>(
  { results, goneCount }: { results: readonly R[]; goneCount: number },
  textOf: () => string,
): string {
  if (goneCount === 0) return textOf();
  const goneText = `${goneCount} ${goneCount === 1 ? 'was' : 'were'} already gone.`;
  return results.length === 0 ? `Nothing to do: ${goneText}` : `${textOf()} ${goneText}`;
}
