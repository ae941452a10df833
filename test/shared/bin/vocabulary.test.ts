import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { recordFromResponse } from '../../../src/gatehouse/bin/response.ts';
import { NETWORK_RANGES } from '../../../src/shared/bin/network-ranges.ts';
import { schemeFromName } from '../../../src/shared/bin/scheme-name.ts';
import { isNoFact, prepaidIn, prepaidOrNot, statedType, yesOrNoIn } from '../../../src/shared/bin/vocabulary.ts';

describe('the names of networks', () => {
  test.each([
    [
      'amex',
      ['AMERICAN EXPRESS', 'americanexpress', 'American-Express', 'American Express Company', 'AMEX Card', 'AE'],
    ],
    ['diners', ['DINERS CLUB', 'DINERS CLUB (INTERNATIONAL)', 'Diner’s Club', 'Diners Club Int’l', 'DCI']],
    ['discover', ['DISCOVER', 'Discover Card', 'Discover Network', 'Discover Financial Services']],
    ['jcb', ['JCB', 'JCB INTERNATIONAL', 'JCB Co., Ltd.', 'Japan Credit Bureau']],
    ['maestro', ['MAESTRO', 'Maestro International', 'Mastercard Maestro', 'MAESTRO DEBIT']],
    ['mastercard', ['Master Card', 'MC', 'mci credit', 'MASTERCARD WORLDWIDE', 'MasterCard®', 'DEBIT MASTERCARD']],
    ['mir', ['MIR', 'NSPK MIR', 'nspk-mir', 'МИР']],
    ['rupay', ['RUPAY', 'Ru Pay', 'RuPay Debit']],
    ['unionpay', ['CHINA UNION PAY', 'UNIONPAY INTERNATIONAL', 'China UnionPay (CUP)', 'union_pay', '银联', 'CUP']],
    [
      'visa',
      ['VISA', ' Visa ', 'VISA DEBIT', 'visa electron', 'Visa Inc.', 'VISA CREDIT CARD', 'V PAY', 'VISA/DANKORT'],
    ],
    ['dankort', ['Dankort']],
    ['interac', ['INTERAC']],
  ])('%s', (scheme, names) => {
    expect(names.map((name) => [name, schemeFromName(name)])).toEqual(names.map((name) => [name, scheme]));
  });

  test.each([
    '',
    'card',
    'Business',
    'LOCAL BRAND',
    'PRIVATE LABEL',
    'JCB/RUPAY',
    'VISA, MASTERCARD',
    'MASTERCARD/MAESTRO',
    'Mastercard, Maestro',
    'Mastercard or Maestro',
    'visage',
    'PVL',
    '4',
  ])('%j is none', (name) => expect(schemeFromName(name)).toBeUndefined());

  test('case, punctuation and spaces make no difference', () => {
    const names = [...new Set(NETWORK_RANGES.map(({ scheme }) => scheme))];
    const separators = fc.constantFrom('', ' ', '-', '_', '.', '  ');
    fc.assert(
      fc.property(fc.constantFrom(...names), separators, separators, fc.boolean(), (name, before, after, isUpper) => {
        const written = `${before}${isUpper ? name.toUpperCase() : name}${after} international`;
        expect(schemeFromName(written)).toBe(name);
      }),
    );
  });
});

describe('the kind of a card', () => {
  test.each([
    [{ type: 'credit' }, ['CREDIT', 'credit card', 'C', 'Crédit', 'CREDITO', 'Kredi Kartı', 'Kreditkarte']],
    [{ type: 'debit' }, ['DEBIT', 'Debit Card', 'D', 'Débito', 'tarjeta débito', 'BANKA KARTI']],
    [{ type: 'charge' }, ['CHARGE', 'Charge Card', 'H']],
    [{ type: 'deferred debit' }, ['DEFERRED_DEBIT', 'deferred debit', 'R', 'Delayed Debit']],
    [{ prepaid: true }, ['PREPAID', 'Pre-Paid', 'prepaid card', 'P', 'PREPAGO', 'prépayée']],
    [{ prepaid: false }, ['NON-PREPAID', 'not prepaid', 'nonprepaid']],
    [{ type: 'debit', prepaid: true }, ['PREPAID DEBIT', 'Debit (prepaid)']],
    [{ type: 'credit', prepaid: false }, ['Credit non-prepaid']],
    [undefined, ['Debit/Credit', 'credit or debit', 'LOCAL', 'CLASSIC', 'x', '4', 'debit prepaid gold extra']],
  ])('%j', (stated, words) => {
    expect(words.map((word) => [word, statedType(word)])).toEqual(words.map((word) => [word, stated]));
  });

  test.each([
    [true, ['PREPAID', 'PREPAID RELOADABLE', 'Non-Reloadable Prepaid', 'Mastercard Prepaid', 'GOLD PRE-PAID']],
    [
      false,
      [
        'NON-PREPAID',
        'CLASSIC NOT PREPAID',
        'not a prepaid card',
        'Prepaid: No',
        'unprepaid',
        'without prepaid',
        'ex-prepaid',
        'neither prepaid',
        'PREPAID EXCLUDED',
        'Prepaid 0',
      ],
    ],
    [undefined, ['', 'PREMIUM', 'CLASSIC', 'prepayment of fees', 'prepaid or non-prepaid', 'PREPAID NO FEE']],
  ])('a product name says that it is prepaid: %s', (prepaid, names) => {
    expect(names.map((name) => [name, prepaidIn(name)])).toEqual(names.map((name) => [name, prepaid]));
  });

  test.each([
    [true, ['y', 'Yes', 'TRUE', '1', 'PREPAID', 'P', 'sí']],
    [false, ['n', 'No', 'False', '0', 'non-prepaid', 'nein']],
    [undefined, ['maybe', 'D', 'CREDIT', 'PREPAID DEBIT', '2']],
  ])('the column for prepaid: %s', (prepaid, cells) => {
    expect(cells.map((cell) => [cell, prepaidOrNot(cell)])).toEqual(cells.map((cell) => [cell, prepaid]));
  });

  test('a text of more than 100 characters states nothing, even if only punctuation makes it so long', () => {
    const padded = (word: string, length: number) => word.padEnd(length, '.');
    expect(schemeFromName(padded('visa', 100))).toBe('visa');
    expect(schemeFromName(padded('visa', 101))).toBeUndefined();
    expect(statedType(padded('debit', 101))).toBeUndefined();
    expect(prepaidIn(padded('prepaid', 101))).toBeUndefined();
  });

  test('never throws, and knows each text as none, yes or no', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect([true, false, undefined]).toContain(prepaidIn(text));
        expect([true, false, undefined]).toContain(yesOrNoIn(text));
        expect(statedType(text)).toEqual(statedType(text));
      }),
    );
  });
});

test.each([
  'NULL',
  '(null)',
  'nan',
  'NaN',
  'None',
  'N/A',
  'n.a.',
  'NA',
  '#N/A',
  '-',
  '—',
  String.raw`\N`,
  'UNKNOWN',
  '?',
  '#DIV/0!',
  '#NV',
  '#BEZUG!',
  '(blank)',
  'N.D.',
  'not-available',
  'No data',
  'None.',
  'NaT',
  "'NULL'",
  '[null]',
  '…',
  '**',
  '−',
  "''",
  '{}',
  'Unknown bank',
])('%s is no fact', (text) => expect(isNoFact(text)).toBe(true));
test.each([
  'Nan Bank',
  'Null & Sons',
  'NAB',
  '-1',
  'N',
  '0',
  '#1 Bank',
  'Blank Bank',
  'ND Bank',
  '銀',
  'Unknown Soldier',
])('%s may be a fact', (text) => expect(isNoFact(text)).toBe(false));

describe('the response of a service', () => {
  test.each([
    [
      { scheme: 'NSPK MIR', type: 'D' },
      { scheme: 'mir', type: 'debit' },
    ],
    [{ type: 'PREPAID' }, { prepaid: true }],
    [{ type: 'prepaid', prepaid: false }, {}],
    [
      { scheme: 'VISA PREPAID', brand: 'NOT PREPAID' },
      { scheme: 'visa', brand: 'NOT PREPAID' },
    ],
    [{ scheme: 'PREPAID CARD', brand: 'NOT PREPAID' }, { brand: 'PREPAID CARD NOT PREPAID' }],
    [{ brand: 'CLASSIC NOT PREPAID' }, { brand: 'CLASSIC NOT PREPAID', prepaid: false }],
    [{ scheme: 'LOCAL BRAND' }, { brand: 'LOCAL BRAND' }],
    [{ scheme: 'PAGOBANCOMAT X', brand: 'CLASSIC' }, { brand: 'PAGOBANCOMAT X CLASSIC' }],
    [{ scheme: 'null', type: 'nan', brand: 'N/A', bank: { name: 'NULL', city: '-' } }, {}],
    [{ scheme: '4111111111111111' }, {}],
  ])('%j', (response, record) => expect(recordFromResponse(response)).toEqual(record));
});
