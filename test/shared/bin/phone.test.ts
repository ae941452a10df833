/** Telephone numbers of banks are converted to E.164, or left out. */
import { describe, expect, test } from 'vitest';
import { internationalPhone } from '../../../src/shared/bin/phone.ts';

test.each([
  ['8667536440', 'US', '+18667536440'],
  ['(515) 288-2828', 'US', '+15152882828'],
  ['0771-22 44 88', 'SE', '+46771224488'],
  ['00 46 8 123 456', 'SE', '+468123456'],
  ['554133076099', 'BR', '+554133076099'],
  ['+45 89 89 33 00', 'SE', '+4589893300'],
  ['+4589893300', undefined, '+4589893300'],
])('%s in %s is %s', (text, country, number) => {
  expect(internationalPhone(text, country)).toBe(number);
  expect(internationalPhone(number, country)).toBe(number);
});

test.each([
  ['089/1234567', 'DE', '+49891234567'],
  ['089 / 12 34 567', 'DE', '+49891234567'],
  ['030 / 12345 - 0', 'DE', '+4930123450'],
  ['020 - 123 4567', 'NL', '+31201234567'],
  ['+49 (0) 89 / 1234567', 'DE', '+49891234567'],
  ['(515) 288-2828 ext. 12', 'US', '+15152882828'],
  ['515-288-2828 x12', 'US', '+15152882828'],
])('%s in %s is one number: %s', (text, country, number) => {
  expect(internationalPhone(text, country)).toBe(number);
});

describe('two numbers in one cell are not joined', () => {
  const separators = [
    ' / ',
    '/',
    ', ',
    ',',
    '; ',
    ';',
    ' | ',
    ' or ',
    ' OR ',
    ' oder ',
    ' ou ',
    ' and ',
    ' & ',
    ' - ',
    ' – ',
    '–',
    ' ~ ',
    ' bzw. ',
    ' bis ',
  ];
  const numbers: [string, string, string][] = [
    ['DE', '0800 123', '0800 124'],
    ['DE', '069 12345', '069 12346'],
    ['DE', '+49 69 1234', '+49 69 1235'],
    ['AT', '05 0100', '05 0101'],
    ['IT', '02 1234', '02 5678'],
    ['BR', '4004 3535', '0800 702 3535'],
    ['IN', '1800 1234', '+91 22 1234'],
    ['JP', '0120 12', '0120 345'],
    ['FI', '010 12', '010 34'],
  ];
  test.each(numbers)('%s: %s and %s', (country, first, second) => {
    for (const separator of separators) {
      const phone = internationalPhone(`${first}${separator}${second}`, country);
      expect([separator, phone]).toEqual([separator, undefined]);
    }
  });

  test.each([
    ['0800 123 0800 124', 'DE'],
    ['0800123 0800124', 'DE'],
    ['0800 123-0800 124', 'DE'],
    ['0800 123 (0800) 124', 'DE'],
    ['0800 123 (24h)', 'DE'],
    ['0800 123 24/7', 'DE'],
  ])('%s in %s is left out', (text, country) => expect(internationalPhone(text, country)).toBeUndefined());

  test('nor is the end of a second one', () => {
    for (const text of ['069 123456/58', '069 123456, 58', '069 123456; 58', '0800 1234567 / 568'])
      expect(internationalPhone(text, 'DE')).toBeUndefined();
  });
});

test.each([
  ['8667536440', undefined],
  ['012700283', 'QQ'],
  ['6663', 'US'],
  ['0000000000', 'US'],
  ['+45 11 11 11 11', undefined],
  ['1-800-GOT-MILK', 'US'],
  ['+999 123456', 'US'],
  ['+45 89 89 33 00 / 33 01', 'DK'],
  ['', 'DK'],
])('%s in %s is left out', (text, country) => {
  expect(internationalPhone(text, country)).toBeUndefined();
});
