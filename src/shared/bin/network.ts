/** The rules of card networks: the network of a BIN, and the length and Luhn check of its card numbers. */
import { type BinRange, sharedDigits } from './bin-range.ts';
import { NETWORK_RANGES } from './network-ranges.ts';
import { findSegment, type Segments } from './ranges.ts';

/** The facts that follow from the network. */
export interface NetworkFacts {
  scheme: string;
  number?: { length?: number; luhn?: boolean };
}

/** The day on which the sources of the rules were read. */
export const NETWORK_RULES_AS_OF = '2026-11-30';

/** The usual length of card numbers, by network. The lengths of Maestro and UnionPay vary too much. */
const USUAL_LENGTH: Readonly<Record<string, number>> = {
  amex: 15,
  diners: 14,
  discover: 16,
  jcb: 16,
  mastercard: 16,
  visa: 16,
};

// Numbers of UnionPay need not pass the Luhn check. Nothing is said about other networks.
const LUHN_SCHEMES: ReadonlySet<string> = new Set([...Object.keys(USUAL_LENGTH), 'maestro']);

export type NetworkOfBin = NetworkFacts & { digitsMatched: number };

/** No published range divides a BIN of 6 digits. */
const DIGITS = 6;

const RANGES = NETWORK_RANGES.map(({ scheme, range }) => {
  const [start = '', end = start] = range.split('-');
  const bins = rangeOf(start, end);
  return { scheme, ...bins, sharedDigits: sharedDigits(bins) };
});

/** From each limit of a range to the next one, all BINs have the same network, or none. */
const starts = Uint32Array.from(new Set([0, ...RANGES.flatMap(({ from, to }) => [from, to + 1])])).sort();
const SEGMENTS: Segments = { starts, owners: starts.map((_, index) => index) };
const NETWORKS = Array.from(starts, networkFrom);

/**
 * Returns the network of card numbers that start with these digits, and how many of the digits identify it; undefined
 * unless a published range of one network contains all of these numbers, and no other network has any of them.
 */
export function networkOfBin(bin: string): NetworkOfBin | undefined {
  const { from, to } = rangeOf(bin.slice(0, DIGITS), bin.slice(0, DIGITS));
  const segment = findSegment(SEGMENTS, from);
  return segment === findSegment(SEGMENTS, to) ? NETWORKS[segment] : undefined;
}

function networkFrom(start: number): NetworkOfBin | undefined {
  const ranges = RANGES.filter(({ from, to }) => from <= start && start <= to);
  const [scheme, ...others] = new Set(ranges.map((range) => range.scheme));
  if (scheme === undefined || others.length > 0) return undefined;
  return { ...networkOfScheme(scheme), digitsMatched: Math.max(...ranges.map((range) => range.sharedDigits)) };
}

/** Returns the BINs from the one limit to the other, which have at most 6 digits. */
function rangeOf(start: string, end: string): BinRange {
  return { digits: DIGITS, from: Number(start.padEnd(DIGITS, '0')), to: Number(end.padEnd(DIGITS, '9')) };
}

/** @param scheme a name as in BIN records */
export function networkOfScheme(scheme: string): NetworkFacts {
  const length = USUAL_LENGTH[scheme];
  const number = { ...(length && { length }), ...(LUHN_SCHEMES.has(scheme) && { luhn: true }) };
  return Object.keys(number).length > 0 ? { scheme, number } : { scheme };
}
