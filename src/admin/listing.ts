/** Owns how lists are asked for and told: `?after=&limit=&q=`, and `{"items", "next"}`. */
import { z } from 'zod';
import type { PageOptions } from '../storage/store.ts';

export const listQuery = z.strictObject({
  after: z.string().max(500).optional().describe('the "next" of the page before'),
  limit: z.coerce.number().int().min(1).max(200).default(50).describe('how many at most'),
  q: z.string().max(200).optional().describe('only what holds this text'),
});

export type ListQuery = z.output<typeof listQuery>;

export function listOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next: z.string().optional() });
}

/** What the store is asked with. */
export function pageOptions({ after, limit }: ListQuery): Pick<PageOptions, 'after' | 'limit'> {
  return { limit, ...(after === undefined || after === '' ? {} : { after }) };
}

/** True where one of the texts holds what was searched for, whatever its case. */
export function matches(q: string | undefined, ...texts: (string | undefined)[]): boolean {
  const wanted = q?.trim().toLowerCase() ?? '';
  return wanted === '' || texts.some((text) => text?.toLowerCase().includes(wanted));
}

/** A page of a list that is in memory, by the id of each; `after` is the last id of the page before. */
export function pageOf<T extends { id: string }>(
  all: readonly T[],
  { after, limit }: ListQuery,
): { items: T[]; next?: string } {
  const rest = after === undefined || after === '' ? all : all.filter(({ id }) => id > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return last && rest.length > limit ? { items, next: last.id } : { items };
}
