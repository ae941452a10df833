/** Normalises the names of card networks, which sources spell differently. */

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

/** Returns the name used in BIN records: in lower case, with one spelling, such as `amex` for `American Express`. */
export function schemeFromName(name: string): string {
  const plain = name.trim().toLowerCase();
  return SCHEME_OF_NAME[plain] ?? plain;
}
