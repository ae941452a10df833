/** A page over several sources that are each in order, newest first. Reads a bounded number of positions for each page. */
import { decodeCursor, encodeCursor, invalidCursor } from './paging.ts';
import type { IndexPage, Store } from './store.ts';

/** `member`: unlike all others of the source that have this score. */
export interface Position {
  score: number;
  member: string;
}

export interface MergedSource<T> {
  /** The positions after that one, newest first: a cursor of `encodeCursor`. */
  page(options: { after: string | undefined; limit: number }): Promise<Position[]>;
  /** For each position its item; undefined for one that is gone, or does not match. */
  load(positions: readonly Position[]): Promise<readonly (T | undefined)[]>;
}

export interface MergedPage<T> {
  items: T[];
  next?: string;
  /** Where nothing more was found in time: everything since this time, in milliseconds since the epoch, has been searched. */
  searchedTo?: number;
}

interface Placed<T> extends Position {
  source: number;
  item: T;
}

/** How many positions of a source one page looks through, where few of them match. */
const MAX_SEARCHED = 1_000;
const MIN_BATCH = 50;
const MAX_BATCH = 250;

export async function mergedPage<T>(
  sources: readonly MergedSource<T>[],
  { after, limit }: { after?: string | undefined; limit: number },
): Promise<MergedPage<T>> {
  const start = after === undefined ? undefined : positionOf(after, sources.length);
  const read = await Promise.all(sources.map((source, place) => readSource(source, place, start, limit)));
  const stops = read.flatMap(({ stoppedAt }) => (stoppedAt ? [stoppedAt] : []));
  // Beyond the first of these places, a source may have items that were not read.
  const [stop] = stops.sort(newestFirst);
  const found = read.flatMap(({ items }) => items).sort(newestFirst);
  const complete = stop ? found.filter((item) => newestFirst(item, stop) <= 0) : found;
  const items = complete.slice(0, limit);
  const last = items.at(-1);
  const shown = { items: items.map(({ item }) => item) };
  if (complete.length > limit && last) return { ...shown, next: cursorOf(last) };
  return stop ? { ...shown, next: cursorOf(stop), searchedTo: stop.score } : shown;
}

/** The positions of several indexes as those of one, each once. */
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

/** @returns one more than `limit`, if there are that many. `stoppedAt`: the last position searched, if there are more */
async function readSource<T>(
  source: MergedSource<T>,
  place: number,
  start: Omit<Placed<unknown>, 'item'> | undefined,
  limit: number,
): Promise<{ items: Placed<T>[]; stoppedAt?: Omit<Placed<T>, 'item'> }> {
  const items: Placed<T>[] = [];
  let after = start && startIn(place, start);
  for (let searched = 0; ; ) {
    const size = Math.min(Math.max(limit + 1, MIN_BATCH), MAX_BATCH);
    const positions = await source.page({ after, limit: size });
    const loaded = await source.load(positions);
    for (const [at, position] of positions.entries()) {
      const item = loaded[at];
      if (item !== undefined) items.push({ ...position, source: place, item });
      if (items.length > limit) return { items };
    }
    const last = positions.at(-1);
    if (!last || positions.length < size) return { items };
    searched += positions.length;
    if (searched >= MAX_SEARCHED) return { items, stoppedAt: { ...last, source: place } };
    after = encodeCursor(last);
  }
}

/** Of one time, the sources come one after the other. */
function newestFirst(left: Position & { source?: number }, right: Position & { source?: number }): number {
  if (left.score !== right.score) return right.score - left.score;
  if (left.source !== right.source) return (left.source ?? 0) - (right.source ?? 0);
  return left.member < right.member ? 1 : left.member > right.member ? -1 : 0;
}

/** Where to go on in a source after a position of another. */
function startIn(place: number, { score, member, source }: Omit<Placed<unknown>, 'item'>): string {
  if (place === source) return encodeCursor({ score, member });
  // No member is shorter than an empty one: after it come only earlier times.
  return encodeCursor({ score: place < source ? score : score + 1, member: '' });
}

const cursorOf = ({ score, member, source }: Omit<Placed<unknown>, 'item'>) =>
  encodeCursor({ score, member: `${source} ${member}` });

/** @throws AppError `invalid_request` for a cursor of another list */
function positionOf(cursor: string, sources: number): Omit<Placed<unknown>, 'item'> {
  const { score, member } = decodeCursor(cursor);
  const [, digits = '', rest = ''] = /^(\d) (.*)$/s.exec(member) ?? [];
  if (digits === '' || Number(digits) >= sources) throw invalidCursor();
  return { score, member: rest, source: Number(digits) };
}
