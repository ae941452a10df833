/** Converts telephone numbers of banks to E.164, by the country of the bank. */
import { createRequire } from 'node:module';
import type { CountryCode } from 'libphonenumber-js/min';
import { remembered } from '../remembered.ts';

const require = createRequire(import.meta.url);

/** A data set has each bank's number in many rows. '' is a number that cannot be converted. */
const numbers = remembered<string>(10_000);

/**
 * The number in E.164 form, such as `+4589893300`. Undefined for a number that cannot exist in its country.
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
  // Loaded when the first number is parsed.
  const { parsePhoneNumberFromString }: typeof import('libphonenumber-js/min') = require('libphonenumber-js/min');
  // The type lists only the countries of the package; others have no numbers.
  const number = parsePhoneNumberFromString(text, country as CountryCode | undefined);
  return number?.isValid() ? number.number : '';
}
