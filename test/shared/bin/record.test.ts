import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { recordFromResponse } from '../../../src/gatehouse/bin/response.ts';
import { countryByAlpha2 } from '../../../src/shared/bin/country.ts';

const EXAMPLE = {
  number: { length: 16, luhn: true },
  scheme: 'visa',
  type: 'debit',
  brand: 'Visa/Dankort',
  prepaid: false,
  country: {
    numeric: '208',
    alpha2: 'DK',
    name: 'Denmark',
    emoji: '🇩🇰',
    currency: 'DKK',
    latitude: 56,
    longitude: 10,
  },
  bank: { name: 'Jyske Bank', url: 'www.jyskebank.dk', phone: '+4589893300', city: 'Hjørring' },
};

describe('recordFromResponse', () => {
  test('reads the whole example unchanged', () => {
    expect(recordFromResponse(EXAMPLE)).toEqual(EXAMPLE);
  });

  test('leaves out fields that are null, empty or of the wrong type', () => {
    const response = { number: {}, scheme: 'visa', type: null, brand: '', prepaid: 'no', country: null, bank: {} };
    expect(recordFromResponse(response)).toEqual({ scheme: 'visa' });
    expect(recordFromResponse({ number: { length: '16', luhn: null }, bank: [] })).toEqual({});
    expect(recordFromResponse({ number: null, bank: { name: 7, city: 'Aarhus' } })).toEqual({
      bank: { city: 'Aarhus' },
    });
  });

  test('a number has 8 to 19 digits (ISO/IEC 7812-1)', () => {
    const lengthOf = (length: number) => recordFromResponse({ number: { length } })?.number?.length;
    expect([7, 8, 19, 20, 12.5].map(lengthOf)).toEqual([undefined, 8, 19, undefined, undefined]);
  });

  test('completes the country by its code and keeps the facts of the response', () => {
    expect(recordFromResponse({ country: { alpha2: 'dk', name: 'Danmark' } })).toEqual({
      country: { ...EXAMPLE.country, name: 'Danmark' },
    });
    expect(recordFromResponse({ country: { alpha2: 'QQ' } })).toEqual({ country: { alpha2: 'QQ' } });
  });

  test('cleans names, truncates texts and drops unknown fields', () => {
    const record = recordFromResponse({
      scheme: 'American Express',
      type: 'CREDIT',
      brand: `${'x'.repeat(5_000)}`,
      bank: { name: 'A\u0000B\r\n\u202eC', url: 'https://bank.example/', phone: '0127' },
      evil: '<script>',
      country: { alpha2: 'DK', evil: 1, latitude: 1e300 },
    });
    expect(record).toMatchObject({ scheme: 'amex', type: 'credit', bank: { name: 'A B C', url: 'bank.example' } });
    expect(record?.brand).toHaveLength(100);
    // No country knows this number.
    expect(record?.bank).not.toHaveProperty('phone');
    expect(record?.country).toEqual(EXAMPLE.country);
    expect(record).not.toHaveProperty('evil');
  });

  test('makes the bank’s telephone number international by its country', () => {
    const bank = { name: 'Test Bank', phone: '8667536440' };
    expect(recordFromResponse({ bank, country: { alpha2: 'us' } })?.bank?.phone).toBe('+18667536440');
    expect(recordFromResponse({ bank })?.bank).toEqual({ name: 'Test Bank' });
  });

  test.each(['javascript:alert(1)', 'www.a.example" onclick="x', 'a', 'user@bank.example', 'bank.example:81'])(
    'does not accept %s as the URL of a bank',
    (url) => expect(recordFromResponse({ bank: { url } })).toEqual({}),
  );

  test('returns undefined for a value that is not an object, and never throws', () => {
    for (const response of [null, undefined, 'visa', 7, [], true]) expect(recordFromResponse(response)).toBeUndefined();
    fc.assert(fc.property(fc.anything(), (response) => void recordFromResponse(response)));
  });

  test('a record can be read again unchanged', () => {
    const text = fc.string({ unit: 'grapheme' });
    const responses = fc.record(
      { scheme: text, type: text, brand: text, bank: fc.record({ name: text, url: fc.webUrl(), city: text }) },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(responses, (response) => {
        const record = recordFromResponse(response);
        expect(recordFromResponse(JSON.parse(JSON.stringify(record)))).toEqual(record);
      }),
    );
  });
});

test('country facts are complete and cannot be changed', () => {
  expect(countryByAlpha2('DK')).toEqual(EXAMPLE.country);
  expect(countryByAlpha2('ZW')?.currency).toBe('ZWG');
  expect(Object.isFrozen(countryByAlpha2('DK'))).toBe(true);
});
