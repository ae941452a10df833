/** Compares copies of a store: the number of items of each kind, and a digest of them that does not depend on their order. */
import { hash } from 'node:crypto';
import { kindOf } from './keys.ts';
import type { KeptItem } from './store.ts';

/** `digest`: the sum of the SHA-256 of all items modulo 2^256. It finds errors, and is no proof against a forger. */
interface Sum {
  count: number;
  digest: bigint;
}

const NOTHING: Sum = { count: 0, digest: 0n };
const MODULUS = 1n << 256n;
const MINUTE_MS = 60_000;

export interface CopyTally {
  add(items: readonly KeptItem[]): void;
  count(): number;
  /** The number of items of each kind. */
  counts(): Record<string, number>;
  /** The sum of each kind, over the items that expire later than that time (milliseconds since the epoch; default all). */
  sums(outliving?: number): ReadonlyMap<string, Sum>;
}

export function createCopyTally(): CopyTally {
  /** By kind, such as `grant`, `index connections` or `log audit`, and then by the minute in which the items expire. */
  const kinds = new Map<string, Map<number, Sum>>();
  let count = 0;

  const sums = (outliving = 0): Map<string, Sum> =>
    new Map(
      [...kinds].map(([kind, minutes]) => {
        const lasting = [...minutes].filter(([minute]) => minute * MINUTE_MS >= outliving);
        return [kind, lasting.reduce((total, [, sum]) => plus(total, sum), NOTHING)];
      }),
    );

  return {
    add(items) {
      count += items.length;
      for (const item of items) {
        const minutes = kinds.get(kindOfItem(item)) ?? new Map<number, Sum>();
        const minute = Math.floor(('expiresAt' in item ? (item.expiresAt ?? Infinity) : Infinity) / MINUTE_MS);
        const digest = BigInt(`0x${hash('sha256', lineOf(item))}`);
        minutes.set(minute, plus(minutes.get(minute) ?? NOTHING, { count: 1, digest }));
        kinds.set(kindOfItem(item), minutes);
      }
    },
    count: () => count,
    counts: () => Object.fromEntries([...sums()].map(([kind, sum]) => [kind, sum.count] as const).toSorted()),
    sums,
  };
}

function plus(one: Sum, other: Sum): Sum {
  return { count: one.count + other.count, digest: (one.digest + other.digest) % MODULUS };
}

/**
 * The kinds in which two copies differ, each in words.
 * @param outliving only items that expire later count, since one of the copies may lack the others
 */
export function differences(expected: CopyTally, found: CopyTally, outliving: number): string[] {
  const [before, after] = [expected.sums(outliving), found.sums(outliving)];
  return [...new Set([...before.keys(), ...after.keys()])].toSorted().flatMap((kind) => {
    const { count, digest } = before.get(kind) ?? NOTHING;
    const now = after.get(kind) ?? NOTHING;
    if (digest === now.digest && count === now.count) return [];
    return [`${kind}: ${count} expected, ${now.count} found${count === now.count ? ', with another content' : ''}`];
  });
}

/** An item as one line of JSON, with its members always in the same order. */
export function lineOf(item: KeptItem): string {
  if ('record' in item) {
    const { record, value, version, expiresAt } = item;
    return JSON.stringify({ record, value, version, expiresAt });
  }
  if ('index' in item) return JSON.stringify({ index: item.index, member: item.member, score: item.score });
  if ('counter' in item) return JSON.stringify({ counter: item.counter, value: item.value, expiresAt: item.expiresAt });
  return JSON.stringify({ log: item.log, id: item.id, at: item.at, entry: item.entry });
}

function kindOfItem(item: KeptItem): string {
  if ('record' in item) return kindOf(item.record);
  if ('index' in item) return `index ${kindOf(item.index)}`;
  return 'counter' in item ? `counter ${kindOf(item.counter)}` : `log ${kindOf(item.log)}`;
}
