/**
 * Each format of docs/bin-data.md, and each source that it recommends, in the shape in which they are published. The rows
 * are made up; their form is that of the real files.
 */
import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { IMPORT_AS_OF, IMPORT_COMMAND, REAL_USE } from '../../../src/shared/bin/built-in-dataset.ts';
import { readDatasetStream } from '../../../src/shared/bin/dataset-file.ts';
import type { FileColumns } from '../../../src/shared/bin/record.ts';
import { bin } from '../../support/bins.ts';

const DOCUMENT = readFileSync('docs/bin-data.md', 'utf8');

interface Source {
  /** The lines of the file. */
  lines: readonly string[];
  columns?: FileColumns;
  taken: number;
  /** Lines and reasons of bad rows. */
  bad?: readonly (readonly [number, string])[];
  /** A lookup, how many digits match, and facts of its record. */
  found: readonly [string, number, Readonly<Record<string, unknown>>];
}

/** By the name of the format in the document. */
const SOURCES: Readonly<Record<string, Source>> = {
  // github.com/binlist/data, ranges.csv: most rows are a prefix without an end.
  'binlist ranges': {
    lines: [
      'iin_start,iin_end,number_length,number_luhn,scheme,brand,type,prepaid,country,bank_name,bank_logo,bank_url,bank_phone,bank_city',
      '999900,,16,,visa,,debit,,DK,Example Bank,,www.bank.example,+45 89 89 33 00,Hjørring',
      '99990110,99990119,,,mastercard,,,,US,Example Federal Credit Union,,,(800) 525-8703,',
      '999902,999903,,,amex,,,,,,,,,',
    ],
    taken: 2,
    bad: [[4, 'country_missing']],
    found: ['99990012', 6, { scheme: 'visa', type: 'debit', bank: { name: 'Example Bank', phone: '+4589893300' } }],
  },
  // github.com/venelinkochev/bin-list-data, CC BY 4.0: sorted by number, so that rows without zeros come first.
  'bin-list-data': {
    lines: [
      'BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName',
      '2102,PRIVATE LABEL,CREDIT,STANDARD,EXAMPLE MERCHANTS BANK,95555,https://english.bank.example,CN,CHN,CHINA',
      '10309,PAGOBANCOMAT,DEBIT,,,,,IT,ITA,ITALY',
      '11300,LOCAL BRAND,DEBIT,PROPRIETARY ATM,"EXAMPLE BANK, INC.",,,PH,PHL,PHILIPPINES',
      '999900,LOCAL BRAND,DEBIT,CLASSIC,STATE BANK OF EXAMPLES,+911800112211,https://bank.example,IN,IND,INDIA',
      '999901,VISA,DEBIT,,EXAMPLE BANK,(852) 277 95533 OR (852) 317 95533,http://bank.example,HK,HKG,HONG KONG',
      '999902,MASTERCARD,CREDIT,WORLD,"EXAMPLE BANK, NATIONAL ASSOCIATION",9.118E+11,,US,USA,UNITED STATES',
    ],
    taken: 3,
    bad: [
      [2, 'leading_zeros_lost'],
      [3, 'leading_zeros_lost'],
      [4, 'leading_zeros_lost'],
    ],
    found: ['999900', 6, { type: 'debit', bank: { name: 'STATE BANK OF EXAMPLES', phone: '+911800112211' } }],
  },
  // github.com/iannuttall/binlist-data: quoted cells, Windows line ends, country facts.
  'binlist-data': {
    lines: [
      'bin,brand,type,category,issuer,alpha_2,alpha_3,country,latitude,longitude,bank_phone,bank_url',
      '999900,VISA,DEBIT,CLASSIC,"EXAMPLE BANK, NA",US,USA,"United States",38,-97,18005258703,www.bank.example\r',
      '999901,MASTERCARD,CREDIT,,EXAMPLE BANK, NA,US,USA,"United States",38,-97,,\r',
    ],
    taken: 1,
    bad: [[3, 'countries_differ']],
    found: ['999900', 6, { scheme: 'visa', country: { alpha2: 'US', currency: 'USD' } }],
  },
  // developer.mastercard.com, BIN Lookup, "SBART data elements": limits of 19 digits, and countries of three letters.
  'Mastercard account ranges (SBART)': {
    lines: [
      'COMPANY_NAME,ICA,ACCOUNT_RANGE_FROM,ACCOUNT_RANGE_TO,BRAND_PRODUCT_CODE,BRAND_PRODUCT_NAME,ACCEPTANCE_BRAND,COUNTRY,REGION',
      'BANK OF TESTS,1234,5120680000000000000,5120689999999999999,MCC,Credit,MCC,USA,1',
      'BANK OF TESTS,1234,5120690000000000000,5120690049999999999,MPP,Mastercard Prepaid,DMC,USA,1',
      'OTHER BANK,99,5120690100000000000,5120690199999999999,MDS,Debit,DMC,DEU,5',
    ],
    taken: 2,
    bad: [[3, 'more_than_8_digits']],
    found: ['51206812', 6, { scheme: 'mastercard', type: 'credit', bank: { name: 'BANK OF TESTS' } }],
  },
};

/** Account ranges of other networks and acquirers, which name their columns in their own way. */
const OTHERS: Readonly<Record<string, Source>> = {
  'account ranges of an acquirer, separated by |': {
    lines: [
      'LOW|HIGH|LEN|PRODUCT|ISSUER|ISO',
      '4999000000000000|4999009999999999|16|Classic|Example Bank|208',
      '371000000000000|371000999999999|15|Gold|Example Bank|36',
      '4999010012|4999010056|16|Gold|Example Bank|840',
    ],
    columns: { start: 'LOW', end: 'HIGH', length: 'LEN', brand: 'PRODUCT', bank: 'ISSUER', country: 'ISO' },
    taken: 2,
    bad: [[4, 'more_than_8_digits']],
    found: ['371000', 6, { brand: 'Gold', number: { length: 15 }, country: { alpha2: 'AU' } }],
  },
  'a list of one country after its column was added': {
    lines: ['bin;brand;type;category;issuer;country', '999900;TROY;DEBIT;;Örnek Bankası;TR'],
    columns: { start: 'bin', scheme: 'brand', type: 'type', bank: 'issuer', country: 'country' },
    taken: 1,
    found: [
      '999900',
      6,
      { scheme: 'troy', country: { alpha2: 'TR', currency: 'TRY' }, bank: { name: 'Örnek Bankası' } },
    ],
  },
};

async function read(bytes: Buffer, columns?: FileColumns) {
  const about = { source: 'set.csv', asOf: '2026-11-01' };
  return readDatasetStream(Readable.from([bytes]), about, columns && { columns });
}

describe.each(Object.entries({ ...SOURCES, ...OTHERS }))('%s', (name, { lines, columns, taken, bad = [], found }) => {
  const text = Buffer.from(`${lines.join('\n')}\n`);

  test('is imported, and bad rows are named', async () => {
    for (const bytes of [text, gzipSync(text)]) {
      const { dataset, report, problem } = await read(bytes, columns);
      expect(problem).toBeUndefined();
      expect(report).toMatchObject({ taken, skipped: bad.length });
      expect(report?.faults.map(({ line, reason }) => [line, reason])).toEqual(bad);
      if (!columns) expect(name).toContain(report?.shape);
      const [digits, digitsMatched, record] = found;
      expect(dataset?.find(bin(digits))).toMatchObject({ digitsMatched, record });
    }
  });

  test('has no licence of its own', async () => {
    const { dataset } = await read(text, columns);
    expect(dataset?.licence).toBe('The file states no licence: see where you obtained it.');
  });
});

test('a cell with two telephone numbers, or with one that a spreadsheet has spoiled, gives none', async () => {
  const { dataset } = await read(Buffer.from(SOURCES['bin-list-data']?.lines.join('\n') ?? ''));
  for (const digits of ['999901', '999902'])
    expect(dataset?.find(bin(digits))?.record.bank).not.toHaveProperty('phone');
});

test('each format of the document has its source here, with all of its columns', () => {
  const rows = [...DOCUMENT.matchAll(/^\| ([^|`]+) \| `([^`]+,[^`]+)` \|$/gm)];
  const formats = rows.map(([, name = '', columns = '']) => [name.trim(), columns]);
  expect(formats).toEqual(Object.entries(SOURCES).map(([name, { lines }]) => [name, lines[0]]));
});

test('the recommended source is said to have lost zeros wherever it is recommended', () => {
  expect(REAL_USE).toContain('bin-list-data');
  expect(REAL_USE).toContain('have lost their leading zeros are left out');
  const [, afterCommand = ''] = DOCUMENT.split(IMPORT_COMMAND);
  expect(afterCommand.slice(0, 600)).toMatch(/have lost their zeros in that file/);
  expect(IMPORT_COMMAND).toContain(`--as-of ${IMPORT_AS_OF}`);
});
