/** Converts telephone numbers of banks to E.164, by the country of the bank. */
import { createRequire } from 'node:module';
import type { CountryCode } from 'libphonenumber-js/min';
import { remembered } from '../remembered.ts';

const require = createRequire(import.meta.url);

/** Converted numbers, because a data set has a bank's number in many rows. '' if the number cannot be converted. */
const numbers = remembered<string>(10_000);

/**
 * Returns the number in E.164 form, such as `+4589893300`; undefined if it cannot exist in its country.
 * @param country the alpha-2 code, in upper case, for a number without a calling code
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
  // The package is loaded when the first number is parsed.
  const { parsePhoneNumberFromString }: typeof import('libphonenumber-js/min') = require('libphonenumber-js/min');
  // The type lists only the countries of the package. For another country, the package finds no valid number.
  const number = parsePhoneNumberFromString(text, country as CountryCode | undefined);
  return number?.isValid() ? number.number : '';
}
