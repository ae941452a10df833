/** The rules of card networks: the network of a BIN, and the length and Luhn check of its card numbers. */
import creditCardType from 'credit-card-type';
import { findSegment, type Segments } from './ranges.ts';
import { schemeFromName } from './scheme-name.ts';

/** The facts that follow from the network. */
export interface NetworkFacts {
  scheme: string;
  number?: { length?: number; luhn?: boolean };
}

/** Release date of credit-card-type 10.3.0, the source of the rules. */
export const NETWORK_RULES_AS_OF = '2026-06-30';

/** The usual length of card numbers, by network. The lengths of Maestro and UnionPay vary too much. */
const USUAL_LENGTH: Readonly<Record<string, number>> = {
  amex: 15,
  diners: 14,
  discover: 16,
  jcb: 16,
  mastercard: 16,
  visa: 16,
};

// Numbers of UnionPay need not pass the Luhn check. Nothing is said about unknown networks.
const LUHN_SCHEMES: ReadonlySet<string> = new Set([...Object.keys(USUAL_LENGTH), 'maestro']);

export type NetworkOfBin = NetworkFacts & { digitsMatched: number };

/**
 * Returns the network of card numbers that start with these digits, and how many of the digits identify it; undefined
 * unless exactly one network matches.
 */
export function networkOfBin(digits: string): NetworkOfBin | undefined {
  const prefix = digits.slice(0, MAX_DIGITS);
  let table = tables.get(prefix.length);
  if (!table) {
    table = createRuleTable(prefix.length);
    tables.set(prefix.length, table);
  }
  return table.networks[findSegment(table.segments, Number(prefix))];
}

const PATTERNS = Object.values(creditCardType.types)
  .flatMap((type) => creditCardType.getTypeInfo(type).patterns)
  .map((pattern) => (Array.isArray(pattern) ? pattern.map(String) : [String(pattern), String(pattern)]));
const MAX_DIGITS = Math.max(...PATTERNS.flat().map((digits) => digits.length));

interface RuleTable {
  segments: Segments;
  networks: (NetworkOfBin | undefined)[];
}

/** The tables by number of digits, because more digits can match other rules. */
const tables = new Map<number, RuleTable>();

/** Applies the rules once to each range between two of their limits, because an import looks up every row. */
function createRuleTable(digits: number): RuleTable {
  const edges = PATTERNS.flatMap(([first = '', last = '']) => [
    Number(first.slice(0, digits).padEnd(digits, '0')),
    Number(last.slice(0, digits).padEnd(digits, '9')) + 1,
  ]);
  const starts = Uint32Array.from(new Set([0, ...edges])).sort();
  const networks = Array.from(starts, (start) => applyRules(String(start).padStart(digits, '0')));
  return { segments: { starts, owners: starts.map((_, index) => index) }, networks };
}

function applyRules(digits: string): NetworkOfBin | undefined {
  const [network, ...others] = creditCardType(digits);
  if (!network || others.length > 0) return undefined;
  const digitsMatched = Math.min(network.matchStrength ?? digits.length, digits.length);
  return { ...networkOfScheme(schemeFromName(network.type)), digitsMatched };
}

/** @param scheme a name as in BIN records */
export function networkOfScheme(scheme: string): NetworkFacts {
  const length = USUAL_LENGTH[scheme];
  const number = { ...(length && { length }), ...(LUHN_SCHEMES.has(scheme) && { luhn: true }) };
  return Object.keys(number).length > 0 ? { scheme, number } : { scheme };
}
