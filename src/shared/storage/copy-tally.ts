/**
 * Compares copies of a store by the number of items of each kind, and by a digest that does not depend on their order.
 */
import { hash } from 'node:crypto';
import { kindOf } from './keys.ts';
import type { CopyItem } from './store.ts';

/** `digest`: the sum of the SHA-256 of all items modulo 2^256. The digest detects errors, not forgery. */
interface Sum {
  count: number;
  digest: bigint;
}

const ZERO: Sum = { count: 0, digest: 0n };
const MODULUS = 1n << 256n;
const MINUTE_MS = 60_000;

export interface CopyTally {
  add(items: readonly CopyItem[]): void;
  count(): number;
  /** The number of items of each kind. */
  counts(): Record<string, number>;
  /** The sum of each kind over items that expire after this time (milliseconds since the epoch; default all). */
  sums(expiringAfter?: number): ReadonlyMap<string, Sum>;
}

export function createCopyTally(): CopyTally {
  /**
   * Sums by kind, such as `grant`, `index connections` or `log audit`, and then by the minute in which the items
   * expire.
   */
  const kinds = new Map<string, Map<number, Sum>>();
  let count = 0;

  const sums = (expiringAfter = 0): Map<string, Sum> =>
    new Map(
      [...kinds].map(([kind, minutes]) => {
        const counted = [...minutes].filter(([minute]) => minute * MINUTE_MS >= expiringAfter);
        return [kind, counted.reduce((total, [, sum]) => plus(total, sum), ZERO)];
      }),
    );

  return {
    add(items) {
      count += items.length;
      for (const item of items) {
        const minutes = kinds.get(kindOfItem(item)) ?? new Map<number, Sum>();
        const minute = Math.floor(('expiresAt' in item ? (item.expiresAt ?? Infinity) : Infinity) / MINUTE_MS);
        const digest = BigInt(`0x${hash('sha256', lineOf(item))}`);
        minutes.set(minute, plus(minutes.get(minute) ?? ZERO, { count: 1, digest }));
        kinds.set(kindOfItem(item), minutes);
      }
    },
    count: () => count,
    counts: () => Object.fromEntries([...sums()].map(([kind, sum]) => [kind, sum.count] as const).toSorted()),
    sums,
  };
}

function plus(a: Sum, b: Sum): Sum {
  return { count: a.count + b.count, digest: (a.digest + b.digest) % MODULUS };
}

/**
 * Describes each kind in which two copies differ.
 * @param expiringAfter time in milliseconds since the epoch: only items that expire later are compared, since expired
 *   items may be missing in one copy
 */
export function differences(expected: CopyTally, actual: CopyTally, expiringAfter: number): string[] {
  const [expectedSums, actualSums] = [expected.sums(expiringAfter), actual.sums(expiringAfter)];
  return [...new Set([...expectedSums.keys(), ...actualSums.keys()])].toSorted().flatMap((kind) => {
    const { count, digest } = expectedSums.get(kind) ?? ZERO;
    const sum = actualSums.get(kind) ?? ZERO;
    if (digest === sum.digest && count === sum.count) return [];
    return [`${kind}: ${count} expected, ${sum.count} found${count === sum.count ? ', with different content' : ''}`];
  });
}

/** Returns an item as one line of JSON, with its members in a fixed order. */
export function lineOf(item: CopyItem): string {
  if ('record' in item) {
    const { record, value, version, expiresAt } = item;
    return JSON.stringify({ record, value, version, expiresAt });
  }
  if ('index' in item) return JSON.stringify({ index: item.index, member: item.member, score: item.score });
  if ('counter' in item) return JSON.stringify({ counter: item.counter, value: item.value, expiresAt: item.expiresAt });
  return JSON.stringify({ log: item.log, id: item.id, at: item.at, entry: item.entry });
}

function kindOfItem(item: CopyItem): string {
  if ('record' in item) return kindOf(item.record);
  if ('index' in item) return `index ${kindOf(item.index)}`;
  return 'counter' in item ? `counter ${kindOf(item.counter)}` : `log ${kindOf(item.log)}`;
}
