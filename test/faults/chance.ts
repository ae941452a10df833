/** Random numbers that can be repeated: all of them follow from one seed, which is printed. */
import { createHash, randomInt } from 'node:crypto';

export interface Chance {
  readonly seed: number;
  /** From 0 up to below 1. */
  fraction(): number;
  between(least: number, most: number): number;
  below(count: number): number;
  pick<T>(list: readonly T[]): T;
  /** Others that follow from the same seed, for those who draw at the same time: none changes what another draws. */
  branch(name: string): Chance;
}

/** @param given the seed of an earlier run; otherwise a new one */
export function createChance(given: string | undefined): Chance {
  const seed = given === undefined ? randomInt(1, 2 ** 31) : Number(given);
  if (!Number.isSafeInteger(seed)) throw new Error(`A seed is a whole number, not "${given}".`);
  return chanceOf(seed);
}

function chanceOf(seed: number): Chance {
  let state = seed >>> 0;
  /** A linear congruence by Knuth's numbers, its upper bits mixed down: good enough to choose, and the same everywhere. */
  const fraction = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const mixed = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) >>> 0;
    return ((mixed ^ (mixed >>> 13)) >>> 0) / 2 ** 32;
  };
  const below = (count: number) => Math.floor(fraction() * count);
  return {
    seed,
    fraction,
    between: (least, most) => least + fraction() * (most - least),
    below,
    branch: (name) => chanceOf(createHash('sha256').update(`${seed} ${name}`).digest().readUInt32BE()),
    pick(list) {
      const picked = list[below(list.length)];
      if (picked === undefined) throw new Error('There is nothing to pick from.');
      return picked;
    },
  };
}
