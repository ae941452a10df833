/** A simple reference implementation of data sets, which reads every entry for every number. */
import type { DatasetEntry } from '../../src/shared/bin/dataset-builder.ts';

export interface Expected {
  facts: { brand: string | undefined; prepaid: boolean | undefined; country: string | undefined };
  digitsMatched: number;
}

interface Limits {
  digits: number;
  from: number;
  to: number;
}

/**
 * Of the entries that contain all numbers of the BIN, prefers the longest limits, then the narrowest range, then the
 * last entry. Entries with the same range give the facts that they share.
 */
export function findByScan(entries: readonly DatasetEntry[], digits: string): Expected | undefined {
  const containing = entries
    .map((entry) => ({ entry, limits: limitsOf(entry) }))
    .filter(({ limits }) => contains(limits, digits));
  const best = containing
    .toSorted(
      ({ limits: a }, { limits: b }) => a.digits - b.digits || widthOf(b) - widthOf(a), // stable: the last one stays last
    )
    .at(-1);
  if (!best) return undefined;
  const isSame = ({ digits, from, to }: Limits) =>
    digits === best.limits.digits && from === best.limits.from && to === best.limits.to;
  const facts = factsInCommon(containing.filter(({ limits }) => isSame(limits)).map(({ entry }) => entry));
  if (Object.values(facts).every((fact) => fact === undefined)) return undefined;
  return { facts, digitsMatched: sharedDigits(best.limits) };
}

/** Limits of more than 8 digits become those of the BINs of 8 digits that have all of their numbers in the range. */
function limitsOf({ start, end }: DatasetEntry): Limits {
  if (start.length <= 8) return { digits: start.length, from: Number(start), to: Number(end) };
  const [low, high] = [Number(start.padEnd(11, '0')), Number(end.padEnd(11, '9'))];
  let from = Math.floor(low / 1000);
  let to = Math.floor(high / 1000);
  if (from * 1000 < low) from++;
  if (to * 1000 + 999 > high) to--;
  return { digits: 8, from, to };
}

const widthOf = ({ from, to }: Limits) => to - from;

function contains({ digits, from, to }: Limits, bin: string): boolean {
  const first = Number(bin.padEnd(digits, '0').slice(0, digits));
  const last = Number(bin.padEnd(digits, '9').slice(0, digits));
  return from <= first && last <= to;
}

function sharedDigits({ digits, from, to }: Limits): number {
  const [low, high] = [from, to].map((limit) => String(limit).padStart(digits, '0')) as [string, string];
  let shared = 0;
  while (shared < digits && low[shared] === high[shared]) shared++;
  return shared;
}

function factsInCommon(entries: readonly DatasetEntry[]): Expected['facts'] {
  const valueInCommon = <T>(factOf: (entry: DatasetEntry) => T): T | undefined => {
    const values = new Set(entries.map(factOf));
    return values.size === 1 ? [...values][0] : undefined;
  };
  return {
    brand: valueInCommon(({ brand }) => brand),
    prepaid: valueInCommon(({ prepaid }) => prepaid),
    country: valueInCommon(({ country }) => country),
  };
}
