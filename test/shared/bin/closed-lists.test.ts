/** What an import makes of the network, the type and prepaid of a row, for known headers and for columns named by hand. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readDatasetStream } from '../../../src/shared/bin/dataset-file.ts';
import { findLocalFacts } from '../../../src/shared/bin/local-facts.ts';
import { describeNotUnderstood } from '../../../src/shared/bin/not-understood.ts';
import type { FileColumns } from '../../../src/shared/bin/record.ts';
import { bin } from '../../support/bins.ts';

const KNOWN = 'BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName';
const BY_HAND = 'low,country,network,kind,product,pre,bank,city';
const COLUMNS = {
  start: 'low',
  country: 'country',
  scheme: 'network',
  type: 'kind',
  brand: 'product',
  prepaid: 'pre',
  bank: 'bank',
  city: 'city',
};
const SBART =
  'COMPANY_NAME,ICA,ACCOUNT_RANGE_FROM,ACCOUNT_RANGE_TO,BRAND_PRODUCT_CODE,BRAND_PRODUCT_NAME,ACCEPTANCE_BRAND,COUNTRY,REGION';

async function read(lines: readonly string[], columns?: FileColumns) {
  async function* chunks() {
    yield Buffer.from(`${lines.join('\n')}\n`);
  }
  return readDatasetStream(chunks(), { source: 'set.csv', asOf: '2026-11-01' }, { columns });
}

/** Imports one row, and returns its record without the country, and the report. */
async function importOf(lines: readonly string[], columns?: FileColumns, digits = '430000') {
  const { dataset, report, problem } = await read(lines, columns);
  if (problem !== undefined) throw new Error(problem);
  const { country, ...record } = dataset.find(bin(digits))?.record ?? {};
  return { record, country: country?.alpha2, report };
}

const byHand = (row: string) => importOf([BY_HAND, row], COLUMNS);

describe('a row', () => {
  const VISA = { scheme: 'visa', number: { length: 16, luhn: true } };
  test.each([
    ['PREPAID as its type', '430000,US,VISA,PREPAID,,,,', { ...VISA, prepaid: true }],
    ['a letter of Visa’s table', '430000,US,VISA,P,,,,', { ...VISA, prepaid: true }],
    ['a letter for deferred debit', '430000,US,VISA,R,,,,', { ...VISA, type: 'deferred debit' }],
    [
      'a prepaid product',
      '430000,US,VISA,DEBIT,PREPAID GOLD,,,',
      { ...VISA, type: 'debit', brand: 'PREPAID GOLD', prepaid: true },
    ],
    [
      'a product that is not prepaid',
      '430000,US,VISA,DEBIT,NON-PREPAID,,,',
      { ...VISA, type: 'debit', brand: 'NON-PREPAID', prepaid: false },
    ],
    ['NON-PREPAID in the column', '430000,US,VISA,D,,non-prepaid,,', { ...VISA, type: 'debit', prepaid: false }],
    ['contradicting words for prepaid', '430000,US,VISA,PREPAID,,N,,', VISA],
    ['a network under another name', '430000,US,Visa Electron Debit,,,,,', VISA],
    ['an unknown network', '430000,US,LOCAL BRAND,,,,,', { brand: 'LOCAL BRAND' }],
    ['an unknown network and a product', '430000,US,LOCAL BRAND,,CLASSIC,,,', { brand: 'LOCAL BRAND CLASSIC' }],
    ['a card number as its network', '430000,US,4111111111111111,,,,,', {}],
    ['no facts', String.raw`430000,US,NULL,nan,N/A,-,#N/A,\N`, {}],
    ['no network', '430000,US,,,,,Some Bank,', { bank: { name: 'Some Bank' } }],
  ])('with %s', async (_kind, row, record) => expect((await byHand(row)).record).toEqual(record));

  test.each([
    ['NA', 'NA'],
    ['na', 'NA'],
    ['NAM', 'NA'],
    ['516', 'NA'],
  ])('of the country %s is of Namibia', async (code, alpha2) => {
    expect((await byHand(`430000,${code},VISA,,,,,`)).country).toBe(alpha2);
    expect((await importOf([KNOWN, `430000,VISA,DEBIT,,,,,${code},NAM,`])).country).toBe(alpha2);
  });

  test.each(['NULL', 'nan', 'N/A', '-', '#N/A', String.raw`\N`])('whose country is %s has none', async (text) => {
    const { problem } = await read([KNOWN, `430000,VISA,DEBIT,,,,,${text},${text},`]);
    expect(problem).toContain('the country is missing: enter its code');
  });

  test.each(['NA', 'N/A', 'nan'])('whose country is NA, and has the other code %s, has none', async (other) => {
    const { problem } = await read([KNOWN, `430000,VISA,DEBIT,NA,NA,NA,NA,NA,${other},NA`]);
    expect(problem).toContain('the country is missing: enter its code');
  });

  test.each([
    ['607000', 'IN'],
    ['501900', 'DK'],
    ['507803', 'EG'],
    ['430000', 'US'],
  ])('of %s without a network gets none, and the rules of networks are no fact of the set', async (digits, country) => {
    const { record } = await importOf([BY_HAND, `${digits},${country},,,,,,`], COLUMNS, digits);
    expect(record).toEqual({});
    const { dataset } = await read([BY_HAND, `${digits},${country},,,,,,`], COLUMNS);
    const found = findLocalFacts(bin(digits), [() => dataset]);
    expect(found).toMatchObject({ source: 'dataset', record: { country: { alpha2: country } } });
    expect(found?.record).not.toHaveProperty('scheme');
    expect(dataset?.coverage.schemes).toEqual({ '': 1 });
  });

  test('of Mastercard’s table with an unknown acceptance brand names no network', async () => {
    const row = (code: string) => `Bank,1,5100000000000000000,5100009999999999999,MCC,Gold,${code},USA,1`;
    const importCode = (code: string) => importOf([SBART, row(code)], undefined, '510000');
    expect((await importCode('DMC')).record).toMatchObject({ scheme: 'mastercard', type: 'debit' });
    for (const code of ['PVL', 'XYZ', '']) {
      const { record, report } = await importCode(code);
      expect(record).toEqual({ brand: 'Gold', bank: { name: 'Bank' } });
      const values = [{ value: 'XYZ', rows: 1 }];
      expect(report.notUnderstood).toEqual(code === 'XYZ' ? [{ column: 'ACCEPTANCE_BRAND', rows: 1, values }] : []);
    }
  });
});

describe('what is not understood', () => {
  test('is counted by column, with the commonest values', async () => {
    const rows = ['LOCAL,DEBIT', 'LOCAL,Debit/Credit', 'OTHER,CREDIT', 'VISA,4111111111111111', 'NULL,nan'];
    const lines = rows.map((cells, index) => `${430_000 + index},${cells},,,,,US,USA,`);
    const { report } = await importOf([KNOWN, ...lines, '430009,X,Y,Z,BANK,,,US,USA,,surplus']);
    expect(report.notUnderstood).toEqual([
      {
        column: 'Brand',
        rows: 3,
        values: [
          { value: 'LOCAL', rows: 2 },
          { value: 'OTHER', rows: 1 },
        ],
      },
      { column: 'Type', rows: 2, values: [{ value: 'Debit/Credit', rows: 1 }] },
    ]);
    const [first] = report.notUnderstood;
    expect(first && describeNotUnderstood(first)).toBe(
      'column Brand: 3 rows have a value that is not understood, most often LOCAL (2), OTHER (1)',
    );
  });

  test('is counted for columns named by hand: prepaid, length and check digit, too', async () => {
    const lines = [
      'low,c,pre,len,check',
      '430000,US,maybe,long,perhaps',
      '430001,US,yes,16,no',
      '430002,US,N/A,-,NULL',
    ];
    const { report } = await importOf(lines, {
      start: 'low',
      country: 'c',
      prepaid: 'pre',
      length: 'len',
      luhn: 'check',
    });
    expect(report.notUnderstood.map(({ column, rows, values }) => [column, rows, values[0]?.value])).toEqual([
      ['len', 1, 'long'],
      ['check', 1, 'perhaps'],
      ['pre', 1, 'maybe'],
    ]);
  });

  test('needs little memory: a thousand values of a column are counted one by one, the five commonest are kept', async () => {
    const names = Array.from({ length: 3_000 }, (_, index) => String.fromCharCode(0x4e00 + index).repeat(200));
    const lines = ['MOST', ...names, 'MOST'].map((name, index) => `${430_000 + index},${name},,,,,,US,USA,`);
    const { report } = await importOf([KNOWN, ...lines]);
    expect(report.notUnderstood).toMatchObject([{ column: 'Brand', rows: 3_002 }]);
    expect(report.notUnderstood[0]?.values).toHaveLength(5);
    expect(report.notUnderstood[0]?.values[0]).toEqual({ value: 'MOST', rows: 2 });
    expect(JSON.stringify(report.notUnderstood).length).toBeLessThan(1_000);
  });

  test('R85 repeats no digits of a card', async () => {
    const digits = fc.stringMatching(/^[0-9]{4,19}$/);
    await fc.assert(
      fc.asyncProperty(digits, fc.constantFrom('', ' ', '-'), async (number, separator) => {
        const cell = number.match(/.{1,4}/g)?.join(separator) ?? '';
        const { report } = await importOf([KNOWN, `430000,${cell},${cell},,,,,US,USA,`]);
        expect(report.notUnderstood).toMatchObject([{ rows: 1 }, { rows: 1 }]);
        expect(JSON.stringify(report.notUnderstood)).not.toContain(cell);
      }),
      { numRuns: 50 },
    );
  });
});
