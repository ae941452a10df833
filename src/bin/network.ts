/** Owns the rules of the card networks: which network a BIN belongs to, and the length and Luhn check of its numbers. */
import creditCardType from 'credit-card-type';

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

/**
 * Network of a number that begins with these digits, and how many of them showed it; undefined where none, or not
 * exactly one, is known.
 */
export function networkOfBin(digits: string): (NetworkFacts & { digitsMatched: number }) | undefined {
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
