/** Owns the rules of the card networks: which network a BIN belongs to, and the length and Luhn check of its numbers. */
import creditCardType from 'credit-card-type';
import { findSegment, type Segments } from './ranges.ts';

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
  const known = digits.slice(0, MOST_DIGITS);
  let table = tables.get(known.length);
  if (!table) {
    table = createRuleTable(known.length);
    tables.set(known.length, table);
  }
  return table.networks[findSegment(table.segments, Number(known))];
}

const PATTERNS = Object.values(creditCardType.types)
  .flatMap((type) => creditCardType.getTypeInfo(type).patterns)
  .map((pattern) => (Array.isArray(pattern) ? pattern.map(String) : [String(pattern), String(pattern)]));
const MOST_DIGITS = Math.max(...PATTERNS.flat().map((digits) => digits.length));

interface RuleTable {
  segments: Segments;
  networks: (NetworkOfBin | undefined)[];
}

/** By how many digits of the number are known: with more of them more rules are met, and fewer may yet be. */
const tables = new Map<number, RuleTable>();

/** The rules are asked once for all numbers between two of their edges: a data set asks for hundreds of thousands. */
function createRuleTable(digits: number): RuleTable {
  const edges = PATTERNS.flatMap(([first = '', last = '']) => [
    Number(first.slice(0, digits).padEnd(digits, '0')),
    Number(last.slice(0, digits).padEnd(digits, '9')) + 1,
  ]);
  const starts = Uint32Array.from(new Set([0, ...edges])).sort();
  const networks = Array.from(starts, (start) => askRules(String(start).padStart(digits, '0')));
  return { segments: { starts, owners: starts.map((_, index) => index) }, networks };
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
