/** The comparison of copies: how many items of each kind there are, and a digest of them that no order changes. Pure. */
import { hash } from 'node:crypto';
import { kindOf } from './keys.ts';
import type { KeptItem } from './store.ts';

export interface KindTally {
  count: number;
  /** The sum of the SHA-256 of all items modulo 2^256, in hexadecimal: finds errors, and is no proof against a forger. */
  digest: string;
}

/** By kind, such as `grant`, `index connections`, `counter bin-quota`, `log audit`. */
export type Tally = Readonly<Record<string, KindTally>>;

export interface CopyTally {
  add(items: readonly KeptItem[]): void;
  /** Of everything, or of what lasts beyond that time (milliseconds since the epoch): the rest may be gone from one of two copies. */
  result(outliving?: number): Tally;
  count(): number;
}

interface Sum {
  count: number;
  total: bigint;
}

const MODULUS = 1n << 256n;
const MINUTE = 60_000;
const FOR_EVER = Number.POSITIVE_INFINITY;

export function createCopyTally(): CopyTally {
  /** By kind, then by the minute in which the items end. */
  const kinds = new Map<string, Map<number, Sum>>();
  let count = 0;

  return {
    add(items) {
      count += items.length;
      for (const item of items) {
        const kind = labelOf(item);
        const minutes = kinds.get(kind) ?? new Map<number, Sum>();
        kinds.set(kind, minutes);
        const end =
          'expiresAt' in item && item.expiresAt !== undefined ? Math.floor(item.expiresAt / MINUTE) : FOR_EVER;
        const sum = minutes.get(end) ?? { count: 0, total: 0n };
        sum.count += 1;
        sum.total = (sum.total + BigInt(`0x${hash('sha256', lineOf(item))}`)) % MODULUS;
        minutes.set(end, sum);
      }
    },
    result(outliving = 0) {
      const tallies = [...kinds]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([kind, minutes]) => {
          const sums = [...minutes].filter(([end]) => end * MINUTE >= outliving).map(([, sum]) => sum);
          const total = sums.reduce((whole, sum) => whole + sum.total, 0n) % MODULUS;
          const tally = {
            count: sums.reduce((whole, sum) => whole + sum.count, 0),
            digest: total.toString(16).padStart(64, '0'),
          };
          return [kind, tally] as const;
        });
      return Object.fromEntries(tallies.filter(([, tally]) => tally.count > 0));
    },
    count: () => count,
  };
}

/** The kinds in which two copies differ, each in words. */
export function differences(expected: Tally, found: Tally): string[] {
  const kinds = [...new Set([...Object.keys(expected), ...Object.keys(found)])].toSorted();
  return kinds.flatMap((kind) => {
    const [before, after] = [expected[kind], found[kind]];
    if (before?.digest === after?.digest && before?.count === after?.count) return [];
    return [
      `${kind}: ${before?.count ?? 0} expected, ${after?.count ?? 0} found${before?.count === after?.count ? ', with another content' : ''}`,
    ];
  });
}

/** An item as one line of JSON, its members always in the same order. */
export function lineOf(item: KeptItem): string {
  if ('record' in item) {
    const { record, value, version, expiresAt } = item;
    return JSON.stringify({ record, value, version, expiresAt });
  }
  if ('index' in item) return JSON.stringify({ index: item.index, member: item.member, score: item.score });
  if ('counter' in item) return JSON.stringify({ counter: item.counter, value: item.value, expiresAt: item.expiresAt });
  return JSON.stringify({ log: item.log, id: item.id, at: item.at, entry: item.entry });
}

function labelOf(item: KeptItem): string {
  if ('record' in item) return kindOf(item.record);
  if ('index' in item) return `index ${kindOf(item.index)}`;
  return 'counter' in item ? `counter ${kindOf(item.counter)}` : `log ${kindOf(item.log)}`;
}
