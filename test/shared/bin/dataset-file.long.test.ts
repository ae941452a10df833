import { mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parse } from 'csv-parse/sync';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createStoredDatasets } from '../../../src/gatehouse/bin/stored-dataset.ts';
import { createDatasetBuilder, type DatasetEntry } from '../../../src/shared/bin/dataset-builder.ts';
import { readDatasetFile, readDatasetStream } from '../../../src/shared/bin/dataset-file.ts';
import { type Bin, parseBin } from '../../../src/shared/bin/parse-bin.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import { bin } from '../../support/bins.ts';
import { findByScan } from '../../support/reference-dataset.ts';

const RANGES_HEADER =
  'iin_start,iin_end,number_length,number_luhn,scheme,brand,type,prepaid,country,bank_name,bank_logo,bank_url,bank_phone,bank_city';
const BIN_LIST_DATA_HEADER = 'BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName';
const BINLIST_DATA_HEADER =
  'bin,brand,type,category,issuer,alpha_2,alpha_3,country,latitude,longitude,bank_phone,bank_url';

const MASTERCARD_HEADER =
  'COMPANY_NAME,ICA,ACCOUNT_RANGE_FROM,ACCOUNT_RANGE_TO,BRAND_PRODUCT_CODE,BRAND_PRODUCT_NAME,ACCEPTANCE_BRAND,COUNTRY,REGION';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'bin-file-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function writeDatasetFile(name: string, content: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function readLines(...lines: string[]) {
  return readDatasetFile(writeDatasetFile('set.csv', `${lines.join('\n')}\n`));
}

describe('the shapes', () => {
  test('binlist ranges', async () => {
    const { dataset, report } = await readLines(
      RANGES_HEADER,
      '99990010,99990019,19,n,visa,Some Brand,debit,y,se,"Bank, of Tests",,https://bank.example/,0771-22 44 88,Umeå',
      '999901,,,,MASTERCARD,,CREDIT,,SE,,,,,',
    );
    expect(report).toEqual({
      shape: 'binlist ranges',
      taken: 2,
      skipped: 0,
      faults: [],
      reasons: [],
      conflicts: { count: 0, ranges: [] },
      notUnderstood: [],
    });
    expect(dataset?.find(bin('99990015'))).toMatchObject({
      digitsMatched: 7,
      record: {
        number: { length: 19, luhn: false },
        scheme: 'visa',
        type: 'debit',
        brand: 'Some Brand',
        prepaid: true,
        country: { alpha2: 'SE', numeric: '752', currency: 'SEK' },
        bank: { name: 'Bank, of Tests', url: 'bank.example', phone: '+46771224488', city: 'Umeå' },
      },
    });

    const second = dataset?.find(bin('99990199'));
    expect(second).toMatchObject({ digitsMatched: 6, record: { scheme: 'mastercard', type: 'credit' } });
    expect(second?.record.number).toEqual({ length: 16, luhn: true });
    expect(second?.record).not.toHaveProperty('prepaid');
  });

  test('bin-list-data', async () => {
    const { dataset, report } = await readLines(
      BIN_LIST_DATA_HEADER,
      '999900,AMERICAN EXPRESS,CREDIT,PREPAID BUSINESS,TEST BANK,(800) 525-8703,www.test.example,US,USA,United States',
    );
    expect(report?.shape).toBe('bin-list-data');
    expect(dataset?.find(bin('999900'))?.record).toMatchObject({
      scheme: 'amex',
      type: 'credit',
      brand: 'PREPAID BUSINESS',
      prepaid: true,
      number: { length: 15, luhn: true },
      country: { alpha2: 'US', name: 'United States' },
      bank: { name: 'TEST BANK', url: 'www.test.example', phone: '+18005258703' },
    });
  });

  test('binlist-data, with Windows line ends, a byte order mark and quoted cells', async () => {
    const { dataset, report } = await readDatasetFile(
      writeDatasetFile(
        'set.csv',
        `\ufeff${BINLIST_DATA_HEADER}\r\n"999900","VISA","DEBIT","","T","DE","DEU","Germany","51","9","",""\r\n`,
      ),
    );
    expect(report).toMatchObject({ shape: 'binlist-data', taken: 1 });
    expect(dataset?.find(bin('999900'))?.record).toMatchObject({ scheme: 'visa', country: { alpha2: 'DE' } });
  });

  test('Mastercard account ranges, filled up to 19 digits', async () => {
    const { dataset, report } = await readLines(
      MASTERCARD_HEADER,
      'BANK OF TESTS,1234,5120680000000000000,5120689999999999999,MCC,Credit,MCC,USA,1',
      'BANK OF TESTS,1234,5120690000000000000,5120690049999999999,MPP,Mastercard Prepaid,DMC,USA,1',
      'BANK OF TESTS,1234,5120690050000000000,5120690099999999999,MDS,Debit,DMC,USA,1',
      'OTHER BANK,99,5120690100000000000,5120690199999999999,MDS,Debit,DMC,DEU,5',
      'OTHER BANK,99,6799990000000000000,6799999999999999999,MSI,Maestro,MSI,DEU,5',
    );
    expect(report).toMatchObject({
      shape: 'Mastercard account ranges',
      taken: 3,
      skipped: 2,
      reasons: [{ count: 2, first: { line: 3, reason: 'more_than_8_digits' } }],
    });

    const bank = { name: 'BANK OF TESTS' };
    const us = { alpha2: 'US', numeric: '840' };
    for (const digits of ['512068', '5120681', '51206812']) {
      expect(dataset?.find(bin(digits))).toMatchObject({
        digitsMatched: 6,
        record: { scheme: 'mastercard', type: 'credit', brand: 'Credit', country: us, bank, number: { length: 16 } },
      });
    }
    // Two ranges divide this BIN, so no lookup can use them.
    expect(dataset?.find(bin('51206900'))).toBeUndefined();
    expect(dataset?.find(bin('512069'))).toBeUndefined();
    expect(dataset?.find(bin('51206901'))?.record).toMatchObject({ brand: 'Debit', bank: { name: 'OTHER BANK' } });
    expect(dataset?.find(bin('679999'))?.record).toMatchObject({ scheme: 'maestro', country: { alpha2: 'DE' } });
  });

  test('R85: a name or web address that holds a card number is left out', async () => {
    const { dataset } = await readLines(
      RANGES_HEADER,
      '999900,,,,visa,4111 1111 1111 1111,debit,,SE,Bank 4111111111111111,,bank.example,,4111-1111-1111-1111',
      '999901,,,,visa,Gold 24,debit,,SE,Bank 1871,,bank.example/4111111111111111,,',
    );
    expect(dataset?.find(bin('999900'))?.record).toMatchObject({ type: 'debit', bank: { url: 'bank.example' } });
    expect(JSON.stringify(dataset?.packed.facts.texts)).not.toContain('1111');
    expect(dataset?.find(bin('999901'))?.record).toMatchObject({ brand: 'Gold 24', bank: { name: 'Bank 1871' } });
  });

  test('another shape by its columns, with countries as three letters or digits', async () => {
    const file = writeDatasetFile(
      'own.csv',
      'LOW,HIGH,ISO,Product\n99990000000,99990000999,SWE,Gold\n999901,,208,\n999902,,QQQ,\n',
    );
    const columns = { start: 'Low', end: 'high', country: 'ISO', brand: 'PRODUCT' };
    const { dataset, report } = await readDatasetFile(file, { columns });
    expect(report).toMatchObject({
      shape: 'columns given',
      taken: 2,
      faults: [{ line: 4, reason: 'country_unknown' }],
    });
    expect(dataset?.find(bin('99990000'))?.record).toMatchObject({ brand: 'Gold', country: { alpha2: 'SE' } });
    expect(dataset?.find(bin('999901'))?.record).toMatchObject({ country: { alpha2: 'DK' } });
    expect((await readDatasetFile(file, { columns: { ...columns, city: 'TOWN' } })).problem).toMatch(/TOWN/);
  });

  test('ignores a column without a name', async () => {
    const file = writeDatasetFile('own.csv', 'LOW,ISO,\n999900,SWE,Note\n');
    const { dataset } = await readDatasetFile(file, { columns: { start: 'LOW', country: 'ISO' } });
    expect(dataset?.find(bin('999900'))?.record).toEqual({ country: expect.objectContaining({ alpha2: 'SE' }) });
  });

  test('recognises a gzipped file by its content, and dates the data set by the file', async () => {
    const path = writeDatasetFile('set.gz', gzipSync(`${BIN_LIST_DATA_HEADER}\n999900,VISA,DEBIT,,,,,US,,\n`));
    utimesSync(path, new Date('2025-03-04T23:30:00Z'), new Date('2025-03-04T23:30:00Z'));
    const { dataset } = await readDatasetFile(path);
    expect(dataset).toMatchObject({ size: 1, asOf: '2025-03-04', source: 'set.gz' });
  });

  test('states no licence for any shape', async () => {
    const { dataset } = await readLines(BIN_LIST_DATA_HEADER, '999900,VISA,DEBIT,,,,,US,,');
    expect(dataset?.licence).toBe('The file states no licence: see where you obtained it.');
  });
});

describe('bad rows', () => {
  test('R85: are counted with line and reason, never with their digits, and the rest is accepted', async () => {
    const result = await readLines(
      BIN_LIST_DATA_HEADER,
      '4111111111111111,VISA,DEBIT,,,,,US,,',
      '999901,VISA,DEBIT,,,,,,,',
      '999902,VISA,DEBIT,,,,,QQ,,',
      '999903,VISA',
      '',
      '999904,VISA,DEBIT,"never closed,,,,US,,',
      '999905,VISA,DEBIT,in "quotes" here,,,,US,,',
      `999906,VISA,DEBIT,${'x'.repeat(70_000)},,,,US,,`,
      '999907,VISA,DEBIT,,,,,US,,',
    );
    expect(result.report).toMatchObject({
      taken: 2,
      skipped: 6,
      faults: [
        { line: 2, reason: 'not_6_to_11_digits' },
        { line: 3, reason: 'country_missing' },
        { line: 4, reason: 'country_unknown' },
        { line: 5, reason: 'too_few_columns' },
        { line: 7, reason: 'not_csv' },
        { line: 9, reason: 'not_csv' },
      ],
    });
    expect(JSON.stringify(result.report)).not.toMatch(/\d{5}/);
    expect(result.dataset?.find(bin('999907'))).toBeDefined();
  });

  test('only the first hundred appear in the report', async () => {
    const rows = Array.from({ length: 250 }, () => 'x,VISA,DEBIT,,,,,US,,');
    const { report } = await readLines(BIN_LIST_DATA_HEADER, '999901,VISA,DEBIT,,,,,US,,', ...rows);
    expect(report?.skipped).toBe(250);
    expect(report?.faults).toHaveLength(100);
  });
});

test('the given source, date and licence override those of the file, and progress and bad rows are reported', async () => {
  const path = writeDatasetFile(
    'set.csv',
    `${BIN_LIST_DATA_HEADER}\n999900,VISA,DEBIT,,,,,US,,\nx,VISA,DEBIT,,,,,US,,\n`,
  );
  const about = { source: 'Somewhere', asOf: '2024-02-03', licence: 'CC0' };
  const faults: unknown[] = [];
  let bytes = 0;
  const { dataset } = await readDatasetFile(path, {
    about,
    onBytes: (count) => {
      bytes += count;
    },
    onFault: (fault) => faults.push(fault),
  });
  expect(dataset).toMatchObject({ ...about, coverage: { schemes: { visa: 1 }, countries: { US: 1 } } });
  expect(faults).toEqual([{ line: 3, reason: 'not_6_to_11_digits' }]);
  expect(bytes).toBe(readFileSync(path).length);
});

describe('files that cannot be used', () => {
  test.each([
    [
      'an unknown header',
      () => writeDatasetFile('set.csv', 'a,b,c\n1,2,3\n'),
      /not the header of a known data set.*binlist ranges/,
    ],
    ['an empty file', () => writeDatasetFile('set.csv', ''), /is empty/],
    ['no usable row', () => writeDatasetFile('set.csv', `${BIN_LIST_DATA_HEADER}\nx,,,,,,,,,\n`), /no usable row/],
    ['a missing file', () => join(folder, 'nowhere.csv'), /does not exist: check the path/],
    ['a directory', () => folder, /is a directory/],
    [
      'a broken gzip file',
      () => writeDatasetFile('set.gz', gzipSync(BIN_LIST_DATA_HEADER.repeat(99)).subarray(0, 60)),
      /damaged/,
    ],
  ])('%s gives one sentence that says what to do', async (_name, path, problem) => {
    expect((await readDatasetFile(path())).problem).toMatch(problem);
  });

  test.each(['999900', '9999000'])('stops reading at too many rows of %s', async (digits) => {
    let lines = 0;
    async function* chunks() {
      yield Buffer.from(`${BIN_LIST_DATA_HEADER}\n`);
      for (; lines < 2_000_000; lines += 1000) yield Buffer.from(`${digits},VISA,DEBIT,,,,,US,,\n`.repeat(1000));
    }
    const { problem } = await readDatasetStream(chunks(), { source: 'long.csv', asOf: '2026-11-01' });
    expect(problem).toBe(
      'long.csv has more than 750,000 rows or distinct texts. Remove rows or columns that you do not need.',
    );
    expect(lines).toBeLessThan(800_000);
  });

  test('refuses too many distinct texts', () => {
    const builder = createDatasetBuilder();
    const facts = (at: number) => ({ brand: `A${at}`, bank: { name: `B${at}`, city: `C${at}` } });
    const add = (at: number) => builder.add({ start: '999900', end: '999900', country: 'US', ...facts(at) });
    for (let at = 0; at < 249_000; at++) add(at);
    expect(() => {
      for (let at = 249_000; at < 251_000; at++) add(at);
    }).toThrow('too long');
  });

  test('stops reading a small gzip file that unpacks to more than the limit', async () => {
    const text = `${BIN_LIST_DATA_HEADER}\n${'999900,VISA,DEBIT,,,,,US,,\n'.repeat(50_000)}`;
    const path = writeDatasetFile('bomb.gz', gzipSync(text));
    const maxBytes = 2 ** 20;
    expect(statSync(path).size).toBeLessThan(maxBytes / 10);
    expect(await readDatasetFile(path, { maxBytes })).toEqual({
      problem: expect.stringContaining('larger, once it is unpacked'),
    });
    expect((await readDatasetFile(path, { maxBytes: text.length })).dataset).toBeDefined();
  });
});

const realFile = process.env.BIN_RANGES_FILE;
const missingFile = 'a file of binlist ranges, named by BIN_RANGES_FILE (it carries no licence)';

test('a real file, once imported, stored and loaded again, agrees with a plain reference', async (context) => {
  if (!realFile) return context.skip(missingFile);
  const read = await readDatasetFile(realFile);
  const rows: Record<string, string>[] = parse(readFileSync(realFile), { columns: true });
  const entries = rows.map((row): DatasetEntry => {
    const start = row.iin_start ?? '';
    return { start, end: row.iin_end || start, country: row.country ?? '', brand: row.bank_name ?? '' };
  });
  expect(read.report).toMatchObject({ taken: rows.length, skipped: 0 });

  const store = await createSqliteStore({ directory: join(folder, 'data') });
  const stored = createStoredDatasets({ store, clock: Date.now });
  const dataset = read.dataset && (await stored.load(await stored.save(read.dataset, read.report)));
  await store.close();
  const nearbyEntries = createEntryFilter(entries);
  for (const number of [...edgesOf(entries), ...scatteredNumbers(100_000)]) {
    const { digitsMatched, facts } = findByScan(nearbyEntries(number), number) ?? {};
    const match = dataset?.find(number);
    expect(match?.digitsMatched).toBe(digitsMatched);
    expect(match?.record.country?.alpha2).toBe(facts?.country);
    expect(match?.record.bank?.name ?? '').toBe(facts?.brand?.replace(/\s+/g, ' ').trim() ?? '');
  }
});

/** Returns the entries whose range includes the first four digits of a number. Only for speed. */
function createEntryFilter(entries: readonly DatasetEntry[]): (number: string) => DatasetEntry[] {
  const cache = new Map<string, DatasetEntry[]>();
  return (number) => {
    const head = number.slice(0, 4);
    const nearby =
      cache.get(head) ?? entries.filter(({ start, end }) => start.slice(0, 4) <= head && head <= end.slice(0, 4));
    cache.set(head, nearby);
    return nearby;
  };
}

/** Every number of 6, 7 and 8 digits at, and next to, the edges of each range. */
function edgesOf(entries: readonly DatasetEntry[]): Set<Bin> {
  const numbers = new Set<Bin>();
  for (const { start, end } of entries) {
    for (const edge of [start.padEnd(8, '0'), end.padEnd(8, '9')]) {
      for (const value of [Number(edge) - 1, Number(edge), Number(edge) + 1]) {
        for (const length of [6, 7, 8]) {
          const { bin } = parseBin(String(value).padStart(8, '0').slice(0, length));
          if (bin) numbers.add(bin);
        }
      }
    }
  }
  return numbers;
}

/** Scattered numbers, the same in every run. */
function scatteredNumbers(count: number): Bin[] {
  return Array.from({ length: count }, (_, index) => bin(String((index * 61_803_399) % 1e8).padStart(8, '0')));
}
