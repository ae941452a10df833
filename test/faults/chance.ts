/** Reproducible random numbers from one seed, which is printed. */
import { createHash, randomInt } from 'node:crypto';

export interface Chance {
  readonly seed: number;
  /** At least 0, less than 1. */
  fraction(): number;
  between(min: number, max: number): number;
  below(count: number): number;
  pick<T>(list: readonly T[]): T;
  /** Independent numbers from the same seed, for concurrent users of random numbers. */
  branch(name: string): Chance;
}

/** @param text the seed of an earlier run. Default: a new seed */
export function createChance(text: string | undefined): Chance {
  const seed = text === undefined ? randomInt(1, 2 ** 31) : Number(text);
  if (!Number.isSafeInteger(seed)) throw new Error(`A seed is a whole number, not "${text}".`);
  return chanceOf(seed);
}

function chanceOf(seed: number): Chance {
  let state = seed >>> 0;
  /** A linear congruential generator with Knuth's constants and mixed bits: sufficient here, and portable. */
  const fraction = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const mixed = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) >>> 0;
    return ((mixed ^ (mixed >>> 13)) >>> 0) / 2 ** 32;
  };
  const below = (count: number) => Math.floor(fraction() * count);
  return {
    seed,
    fraction,
    between: (min, max) => min + fraction() * (max - min),
    below,
    branch: (name) => chanceOf(createHash('sha256').update(`${seed} ${name}`).digest().readUInt32BE()),
    pick(list) {
      const picked = list[below(list.length)];
      if (picked === undefined) throw new Error('There is nothing to pick from.');
      return picked;
    },
  };
}
