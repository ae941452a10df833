/** Owns the rules of the card networks: which network a BIN belongs to, and the length and Luhn check of its numbers. */
import creditCardType from 'credit-card-type';
import { createBoundedMap } from '../bounded-map.ts';

/** What is known from the network alone. */
export interface NetworkFacts {
  scheme: string;
  number?: { length?: number; luhn?: boolean };
}

/** Release date of credit-card-type 10.3.0, from which the rules are read. */
export const NETWORK_RULES_AS_OF = '2026-06-30';

const SCHEME_OF_NAME: Readonly<Record<string, string>> = {
  'american express': 'amex',
  'american-express': 'amex',
  'diners club': 'diners',
  'diners-club': 'diners',
  'diners club international': 'diners',
  'china union pay': 'unionpay',
  'china unionpay': 'unionpay',
  'union pay': 'unionpay',
  'master card': 'mastercard',
};

/** Length of nearly all numbers of a network that allows several. Maestro and UnionPay numbers differ too much to say. */
const USUAL_LENGTH: Readonly<Record<string, number>> = {
  amex: 15,
  diners: 14,
  discover: 16,
  jcb: 16,
  mastercard: 16,
  visa: 16,
};

// UnionPay numbers need not pass the Luhn check; of a network that is not known here nothing is claimed.
const LUHN_SCHEMES: ReadonlySet<string> = new Set([...Object.keys(USUAL_LENGTH), 'maestro']);

/** The network's name as BIN records write it: lower case, `American Express` is `amex`. */
export function schemeFromName(name: string): string {
  const plain = name.trim().toLowerCase();
  return SCHEME_OF_NAME[plain] ?? plain;
}

export type NetworkOfBin = NetworkFacts & { digitsMatched: number };

/**
 * Network of a number that begins with these digits, and how many of them showed it; undefined where none, or not
 * exactly one, is known.
 */
export function networkOfBin(digits: string): NetworkOfBin | undefined {
  const deciding = digits.slice(0, decidingDigits(digits.slice(0, PREFIX_DIGITS)));
  let known = networks.get(deciding);
  if (!known) {
    known = { network: askRules(deciding) };
    networks.set(deciding, known);
  }
  return known.network;
}

/** The rules are asked once for all numbers that they cannot tell apart: a data set asks for hundreds of thousands. */
const networks = createBoundedMap<{ network: NetworkOfBin | undefined }>(100_000);
const PREFIX_DIGITS = 4;
const depths = new Map<string, number>();
const patterns = Object.values(creditCardType.types)
  .flatMap((type) => creditCardType.getTypeInfo(type).patterns)
  .map((pattern) => (Array.isArray(pattern) ? pattern.map(String) : [String(pattern), String(pattern)]))
  .map(([first = '', last = '']) => ({ first, last }));

/** The length of the longest rule that a number with this beginning can meet. */
function decidingDigits(prefix: string): number {
  let depth = depths.get(prefix);
  if (depth === undefined) {
    const lengths = patterns.filter((pattern) => mayMeet(prefix, pattern)).map(({ first }) => first.length);
    depth = Math.max(PREFIX_DIGITS, ...lengths);
    depths.set(prefix, depth);
  }
  return depth;
}

function mayMeet(prefix: string, { first, last }: { first: string; last: string }): boolean {
  const shared = Math.min(prefix.length, first.length);
  const start = prefix.slice(0, shared);
  return first.slice(0, shared) <= start && start <= last.slice(0, shared);
}

function askRules(digits: string): NetworkOfBin | undefined {
  const [network, ...others] = creditCardType(digits);
  if (!network || others.length > 0) return undefined;
  const digitsMatched = Math.min(network.matchStrength ?? digits.length, digits.length);
  return { ...networkOfScheme(schemeFromName(network.type)), digitsMatched };
}

/** The network's rules by its name in BIN records. */
export function networkOfScheme(scheme: string): NetworkFacts {
  const length = USUAL_LENGTH[scheme];
  const number = { ...(length && { length }), ...(LUHN_SCHEMES.has(scheme) && { luhn: true }) };
  return Object.keys(number).length > 0 ? { scheme, number } : { scheme };
}
