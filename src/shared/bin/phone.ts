/** Makes the telephone numbers of banks international, by the country of the bank. */
import { createRequire } from 'node:module';
import type { CountryCode } from 'libphonenumber-js/min';
import { remembered } from '../remembered.ts';

const require = createRequire(import.meta.url);

/** A data set has each bank's number in many rows. '' stands for a number that cannot be made international. */
const numbers = remembered<string>(10_000);

/**
 * The number in the form of E.164, such as `+4589893300`. Undefined for a number that cannot exist in its
 * country.
 * @param country ISO 3166-1 alpha-2, upper case: the country of a number without a calling code
 */
export function internationalPhone(text: string, country: string | undefined): string | undefined {
  const key = `${country} ${text}`;
  let number = numbers.get(key);
  if (number === undefined) {
    number = parse(text, country);
    numbers.set(key, number);
  }
  return number || undefined;
}

function parse(text: string, country: string | undefined): string {
  // Loaded with the first number.
  const { parsePhoneNumberFromString }: typeof import('libphonenumber-js/min') = require('libphonenumber-js/min');
  // The type lists the countries of the package; it finds nothing for any other.
  const number = parsePhoneNumberFromString(text, country as CountryCode | undefined);
  return number?.isValid() ? number.number : '';
}
