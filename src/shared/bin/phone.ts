/** Converts telephone numbers of banks to E.164, by the country of the bank. */
import { createRequire } from 'node:module';
import type { CountryCode } from 'libphonenumber-js/min';
import { remembered } from '../remembered.ts';

const require = createRequire(import.meta.url);

/** Converted numbers, because a data set has a bank's number in many rows. '' if the number cannot be converted. */
const numbers = remembered<string>(10_000);

/**
 * Returns the number in E.164 form, such as `+4589893300`; undefined if it cannot exist in its country, or the text has
 * several numbers.
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

/** Signs and words between two telephone numbers, which never stand inside one. A comma may also begin an extension. */
const BETWEEN_NUMBERS = /[,;|\\&~\n]|\s(?:or|and|to|oder|und|bis|bzw\.?|ou|et|e|o|y)\s/i;

/** Opening hours, which the package would read as the end of the number. */
const HOURS = /\b24\s?(?:h|x|\/\s?7)/i;

/**
 * Returns whether the text has several numbers, which the package would join. A slash or dash can also stand inside a
 * number, such as 089/123456: what follows is another number if it begins with + or 0, or the first one is complete.
 */
function hasSeveral(text: string, isValid: (part: string) => boolean): boolean {
  const hasDigits = (part: string) => /\d/.test(part);
  if (text.split(BETWEEN_NUMBERS).filter(hasDigits).length > 1 || repeatsBeginning(text)) return true;
  const [first = '', ...others] = text.split(/\/|\s[-–—]\s/).filter(hasDigits);
  if (others.some((part) => /^\s*\(?[+0]/.test(part) && part.replaceAll(/\D/g, '').length > 2)) return true;
  return text.includes('/') && others.length > 0 && isValid(first);
}

/** Returns whether a second group of digits begins as the first one does, such as in 0800 123 0800 124. */
function repeatsBeginning(text: string): boolean {
  const [first = '', ...others] = text.match(/\d+/g) ?? [];
  const beginning = first.slice(0, 4);
  return /^0(?:[1-9]|\d{3})/.test(beginning) && others.some((group) => group.startsWith(beginning));
}

function parse(text: string, country: string | undefined): string {
  // The package is loaded when the first number is parsed.
  const { parsePhoneNumberFromString }: typeof import('libphonenumber-js/min') = require('libphonenumber-js/min');
  // The type lists only the countries of the package. For another country, the package finds no valid number.
  const read = (part: string) => parsePhoneNumberFromString(part, country as CountryCode | undefined);
  const number = HOURS.test(text) ? undefined : read(text);
  if (!number?.isValid() || hasSeveral(text, (part) => read(part)?.isValid() === true)) return '';
  return number.number;
}
