/** A page merged from several sources, newest first. Reads a bounded number of positions of each source. */
import { decodeCursor, encodeCursor, invalidCursor } from './paging.ts';
import type { IndexPage, Store } from './store.ts';

export interface Position {
  score: number;
  /** Unique among the positions of the source with this score. */
  member: string;
}

export interface MergedSource<T> {
  /** Returns the positions after a cursor of `encodeCursor`, newest first. */
  page(options: { after: string | undefined; limit: number }): Promise<Position[]>;
  /** Returns the item of each position; undefined if the item is gone or does not match. */
  load(positions: readonly Position[]): Promise<readonly (T | undefined)[]>;
}

export interface MergedPage<T> {
  items: T[];
  next?: string;
  /** Set if the search stopped early: everything since this time (milliseconds since the epoch) was searched. */
  searchedTo?: number;
}

interface SourcePosition extends Position {
  /** Index of the source. */
  source: number;
}

interface SourceItem<T> extends SourcePosition {
  item: T;
}

/** The maximum number of positions of each source that are searched for one page. */
const MAX_SEARCHED = 1_000;
const MIN_BATCH = 50;
const MAX_BATCH = 250;

export async function mergedPage<T>(
  sources: readonly MergedSource<T>[],
  { after, limit }: { after?: string | undefined; limit: number },
): Promise<MergedPage<T>> {
  const start = after === undefined ? undefined : positionOf(after, sources.length);
  const results = await Promise.all(sources.map((source, index) => readSource(source, index, start, limit)));
  const stops = results.flatMap(({ stoppedAt }) => (stoppedAt ? [stoppedAt] : []));
  // After the first of these positions, a source may have items that were not read.
  const [stop] = stops.sort(newestFirst);
  const allItems = results.flatMap(({ items }) => items).sort(newestFirst);
  const searchedItems = stop ? allItems.filter((item) => newestFirst(item, stop) <= 0) : allItems;
  const items = searchedItems.slice(0, limit);
  const last = items.at(-1);
  const page = { items: items.map(({ item }) => item) };
  if (searchedItems.length > limit && last) return { ...page, next: cursorOf(last) };
  return stop ? { ...page, next: cursorOf(stop), searchedTo: stop.score } : page;
}

/** Returns the positions of several indexes as if they were one index. Each member appears once. */
export async function unionPage(
  store: Pick<Store, 'page'>,
  indexes: readonly string[],
  { after, limit }: { after: string | undefined; limit: number },
): Promise<Position[]> {
  const options = { limit, order: 'descending' as const, ...(after !== undefined && { after }) };
  const pages = await Promise.all(indexes.map((index) => store.page(index, options)));
  const byMember = new Map<string, IndexPage['items'][number]>();
  for (const { items } of pages) for (const item of items) byMember.set(item.member, item);
  return [...byMember.values()].sort(newestFirst).slice(0, limit);
}

/** @returns `items`: up to `limit + 1`. `stoppedAt`: the last position that was searched, if more follow */
async function readSource<T>(
  source: MergedSource<T>,
  index: number,
  start: SourcePosition | undefined,
  limit: number,
): Promise<{ items: SourceItem<T>[]; stoppedAt?: SourcePosition }> {
  const items: SourceItem<T>[] = [];
  let after = start && startIn(index, start);
  for (let searched = 0; ; ) {
    const size = Math.min(Math.max(limit + 1, MIN_BATCH), MAX_BATCH);
    const positions = await source.page({ after, limit: size });
    const loadedItems = await source.load(positions);
    for (const [n, position] of positions.entries()) {
      const item = loadedItems[n];
      if (item !== undefined) items.push({ ...position, source: index, item });
      if (items.length > limit) return { items };
    }
    const last = positions.at(-1);
    if (!last || positions.length < size) return { items };
    searched += positions.length;
    if (searched >= MAX_SEARCHED) return { items, stoppedAt: { ...last, source: index } };
    after = encodeCursor(last);
  }
}

/** Orders positions by time, the newest first, and those of the same time by source. */
function newestFirst(a: Position & { source?: number }, b: Position & { source?: number }): number {
  if (a.score !== b.score) return b.score - a.score;
  if (a.source !== b.source) return (a.source ?? 0) - (b.source ?? 0);
  return a.member < b.member ? 1 : a.member > b.member ? -1 : 0;
}

/** Returns the cursor at which a source continues after a position of any source. */
function startIn(index: number, { score, member, source }: SourcePosition): string {
  if (index === source) return encodeCursor({ score, member });
  // The empty member is the last one of its score, so only earlier times follow.
  return encodeCursor({ score: index < source ? score : score + 1, member: '' });
}

const cursorOf = ({ score, member, source }: SourcePosition) => encodeCursor({ score, member: `${source} ${member}` });

/** @throws AppError `invalid_request` for a cursor of another list */
function positionOf(cursor: string, sourceCount: number): SourcePosition {
  const { score, member: text } = decodeCursor(cursor);
  const [, source = '', member = ''] = /^(\d) (.*)$/s.exec(text) ?? [];
  if (source === '' || Number(source) >= sourceCount) throw invalidCursor();
  return { score, member, source: Number(source) };
}
