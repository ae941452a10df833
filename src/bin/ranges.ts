/** Owns ranges of numbers that may overlap: flattened once into disjoint segments, searched in typed arrays. */

/** Inclusive ranges in parallel arrays: range `i` is `starts[i]` to `ends[i]`. At most 2^21 of them, each below 10^8. */
export interface RangeList {
  starts: Uint32Array;
  ends: Uint32Array;
}

/**
 * Disjoint segments, ascending: segment `i` goes from `starts[i]` to just before the next start, and `owners[i]` is what
 * the narrowest range that holds it stands for (of equally narrow ones the last), or `NOBODY`.
 */
export interface Segments {
  starts: Uint32Array;
  owners: Uint32Array;
}

export const NOBODY = 0xffffffff;
const MOST_RANGES = 2 ** 21;

/**
 * Flattens the ranges. Takes time in proportion to sorting them, and two numbers for each segment.
 * @param values what each range stands for; neighbouring segments that stand for the same become one
 */
export function flattenRanges(ranges: RangeList, values: Uint32Array): Segments {
  if (ranges.starts.length > MOST_RANGES) throw new RangeError(`More than ${MOST_RANGES} ranges cannot be held.`);
  const edges = edgesOf(ranges);
  const owners = ownersOf(ranges, edges).map((position) => values[position] ?? NOBODY);
  return joinSegments(edges, owners);
}

/** What the segment that holds the number stands for; -1 where there is nobody. */
export function findSegment({ starts, owners }: Segments, value: number): number {
  const segment = lastAtMost(starts, value);
  const owner = segment < 0 ? NOBODY : (owners[segment] ?? NOBODY);
  return owner === NOBODY ? -1 : owner;
}

/** Every number at which some range begins, or has just ended, ascending and once each. */
function edgesOf({ starts, ends }: RangeList): Uint32Array {
  const edges = new Uint32Array(starts.length * 2);
  edges.set(starts);
  for (let index = 0; index < ends.length; index++) edges[starts.length + index] = (ends[index] ?? 0) + 1;
  edges.sort();
  let count = 0;
  for (const edge of edges) {
    if (count === 0 || edge !== edges[count - 1]) edges[count++] = edge;
  }
  return edges.slice(0, count);
}

/** The narrowest ranges take their segments first; what is taken is skipped by a path-compressed "next free" chain. */
function ownersOf(ranges: RangeList, edges: Uint32Array): Uint32Array {
  const owners = new Uint32Array(edges.length).fill(NOBODY);
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

function narrowestFirst({ starts, ends }: RangeList): Float64Array {
  const keys = new Float64Array(starts.length);
  // Width and reversed position in one number, so that the native numeric sort can be used.
  for (let index = 0; index < keys.length; index++) {
    keys[index] = ((ends[index] ?? 0) - (starts[index] ?? 0)) * MOST_RANGES + (MOST_RANGES - 1 - index);
  }
  return keys.sort().map((key) => MOST_RANGES - 1 - (key % MOST_RANGES));
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
    owners[count] = owners[index] ?? NOBODY;
    count++;
  }
  return { starts: edges.slice(0, count), owners: owners.slice(0, count) };
}

/** Index of the last element that is not greater than the value; -1 where there is none. */
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
