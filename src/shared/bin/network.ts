/** The rules of card networks: the network of a BIN, and the length and Luhn check of its card numbers. */
import { type BinRange, sharedDigits } from './bin-range.ts';
import { NETWORK_RANGES } from './network-ranges.ts';

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

const DIGITS = 8;

const RANGES = NETWORK_RANGES.map(({ scheme, range }) => {
  const [start = '', end = start] = range.split('-');
  const bins = rangeOf(start, end);
  return { scheme, ...bins, sharedDigits: sharedDigits(bins) };
});

/**
 * Returns the network of card numbers that start with these digits, and how many of the digits identify it; undefined
 * unless a published range of one network contains all of these numbers, and no other network has any of them.
 */
export function networkOfBin(bin: string): NetworkOfBin | undefined {
  const { from, to } = rangeOf(bin, bin);
  const ranges = RANGES.filter((range) => range.from <= to && range.to >= from);
  const [range, ...others] = ranges.filter((range) => range.from <= from && range.to >= to);
  if (!range || ranges.some(({ scheme }) => scheme !== range.scheme)) return undefined;
  const digitsMatched = Math.max(range.sharedDigits, ...others.map((other) => other.sharedDigits));
  return { ...networkOfScheme(range.scheme), digitsMatched: Math.min(digitsMatched, bin.length) };
}

/** Returns the BINs of 8 digits from the one limit to the other, which have at most 8 digits. */
function rangeOf(start: string, end: string): BinRange {
  return { digits: DIGITS, from: Number(start.padEnd(DIGITS, '0')), to: Number(end.padEnd(DIGITS, '9')) };
}

/** @param scheme a name as in BIN records */
export function networkOfScheme(scheme: string): NetworkFacts {
  const length = USUAL_LENGTH[scheme];
  const number = { ...(length && { length }), ...(LUHN_SCHEMES.has(scheme) && { luhn: true }) };
  return Object.keys(number).length > 0 ? { scheme, number } : { scheme };
}
