/** Generates random numbers that are the same at every start (mulberry32), so that the history does not change. */

export interface Random {
  /** Returns a number of at least 0 and less than 1. */
  next(): number;
  between(from: number, to: number): number;
  whole(from: number, to: number): number;
  chance(probability: number): boolean;
  /** Picks an item. @param items each item with its weight */
  pick<T>(items: readonly (readonly [T, number])[]): T;
  hex(digits: number): string;
}

export function createRandom(seed: number): Random {
  let state = seed;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (from: number, to: number): number => from + next() * (to - from);
  return {
    next,
    between,
    whole: (from, to) => Math.floor(between(from, to + 1)),
    chance: (probability) => next() < probability,
    pick<T>(items: readonly (readonly [T, number])[]) {
      let remaining = next() * items.reduce((sum, [, weight]) => sum + weight, 0);
      const picked = items.find(([, weight]) => {
        remaining -= weight;
        return remaining < 0;
      });
      return (picked ?? (items.at(-1) as readonly [T, number]))[0];
    },
    hex(digits) {
      let text = '';
      while (text.length < digits)
        text += Math.floor(next() * 2 ** 32)
          .toString(16)
          .padStart(8, '0');
      return text.slice(0, digits);
    },
  };
}
