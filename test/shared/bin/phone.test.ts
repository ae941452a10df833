/** Telephone numbers of banks are converted to E.164, or left out. */
import { expect, test } from 'vitest';
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
