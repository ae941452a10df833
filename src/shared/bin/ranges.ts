/** Flattens overlapping number ranges into disjoint segments, in typed arrays for fast search. */

/** Range `i` goes from `starts[i]` to `ends[i]`, inclusive. There are at most 2^21 ranges of numbers below 10^8. */
export interface RangeList {
  starts: Uint32Array;
  ends: Uint32Array;
  /** By which the narrowest range is found. Default: the difference of the limits. */
  widths?: Uint32Array;
}

/**
 * Disjoint ascending segments. Segment `i` goes from `starts[i]` to just before the next start. `owners[i]` is the
 * value of the narrowest range that contains it, the latest of equally narrow ones, or `NO_OWNER`.
 */
export interface Segments {
  starts: Uint32Array;
  owners: Uint32Array;
}

export const NO_OWNER = 0xffffffff;
const MAX_RANGES = 2 ** 21;

/**
 * Flattens the ranges, in the time of a sort and with two numbers of memory for each segment.
 * @param values the value of each range; neighbouring segments with the same value are merged
 */
export function flattenRanges(ranges: RangeList, values: Uint32Array): Segments {
  if (ranges.starts.length > MAX_RANGES) throw new RangeError(`There can be at most ${MAX_RANGES} ranges.`);
  const edges = edgesOf(ranges);
  const owners = ownersOf(ranges, edges).map((position) => values[position] ?? NO_OWNER);
  return joinSegments(edges, owners);
}

/** Returns the owner of the segment that contains the number; -1 if there is none. */
export function findSegment({ starts, owners }: Segments, value: number): number {
  const segment = lastAtMost(starts, value);
  const owner = segment < 0 ? NO_OWNER : (owners[segment] ?? NO_OWNER);
  return owner === NO_OWNER ? -1 : owner;
}

/** Returns the starts of the ranges and the numbers after their ends, without duplicates, in ascending order. */
function edgesOf({ starts, ends }: RangeList): Uint32Array {
  const edges = new Uint32Array(starts.length * 2);
  edges.set(starts);
  for (let index = 0; index < ends.length; index++) edges[starts.length + index] = (ends[index] ?? 0) + 1;
  return distinct(edges);
}

/** Returns the numbers without duplicates, in ascending order. Sorts `numbers` in place. */
export function distinct(numbers: Uint32Array): Uint32Array {
  numbers.sort();
  let count = 0;
  for (const number of numbers) {
    if (count === 0 || number !== numbers[count - 1]) numbers[count++] = number;
  }
  return numbers.slice(0, count);
}

/** Assigns segments to the narrowest ranges first. A path-compressed "next free" chain skips assigned segments. */
function ownersOf(ranges: RangeList, edges: Uint32Array): Uint32Array {
  const owners = new Uint32Array(edges.length).fill(NO_OWNER);
  const next = new Uint32Array(edges.length + 1);
  for (let index = 0; index < next.length; index++) next[index] = index;
  for (const position of narrowestFirst(ranges)) {
    const end = ranges.ends[position] ?? 0;
    let segment = nextFree(next, lastAtMost(edges, ranges.starts[position] ?? 0));
    while (segment < edges.length && (edges[segment] ?? 0) <= end) {
      owners[segment] = position;
      next[segment] = segment + 1;
      segment = nextFree(next, segment + 1);
    }
  }
  return owners;
}

/** Yields the positions of the same range, for each range that comes more than once. */
export function* repeatedRanges({ starts, ends }: RangeList): Generator<readonly number[]> {
  // Start and position in one number, so that the fast native sort applies.
  const keys = new Float64Array(starts.length);
  for (let position = 0; position < keys.length; position++)
    keys[position] = (starts[position] ?? 0) * MAX_RANGES + position;
  keys.sort();
  for (let first = 0, next = 1; first < keys.length; first = next++) {
    const start = startIn(keys[first]);
    while (next < keys.length && startIn(keys[next]) === start) next++;
    if (next - first === 1) continue;
    const positions = Array.from(keys.subarray(first, next), (key) => key % MAX_RANGES);
    for (const same of Map.groupBy(positions, (position) => ends[position]).values()) if (same.length > 1) yield same;
  }
}

const startIn = (key = 0) => Math.floor(key / MAX_RANGES);

function narrowestFirst({ starts, ends, widths }: RangeList): Float64Array {
  const keys = new Float64Array(starts.length);
  // Width and reversed position in one number, so that the fast native sort applies.
  for (let index = 0; index < keys.length; index++) {
    const width = widths ? (widths[index] ?? 0) : (ends[index] ?? 0) - (starts[index] ?? 0);
    keys[index] = width * MAX_RANGES + (MAX_RANGES - 1 - index);
  }
  return keys.sort().map((key) => MAX_RANGES - 1 - (key % MAX_RANGES));
}

function nextFree(next: Uint32Array, from: number): number {
  let free = from;
  while (next[free] !== free) free = next[free] ?? free;
  for (let index = from; index !== free; ) {
    const following = next[index] ?? free;
    next[index] = free;
    index = following;
  }
  return free;
}

function joinSegments(edges: Uint32Array, owners: Uint32Array): Segments {
  let count = 0;
  for (let index = 0; index < edges.length; index++) {
    if (count > 0 && owners[index] === owners[count - 1]) continue;
    edges[count] = edges[index] ?? 0;
    owners[count] = owners[index] ?? NO_OWNER;
    count++;
  }
  return { starts: edges.slice(0, count), owners: owners.slice(0, count) };
}

/** Returns the index of the last element that is not greater than the value; -1 if there is none. */
function lastAtMost(sorted: Uint32Array, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
