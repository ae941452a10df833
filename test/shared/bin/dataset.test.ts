import { readdirSync, readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  BUILT_IN_ABOUT,
  BUILT_IN_ATTRIBUTION,
  builtInDataset,
  IMPORT_COMMAND,
  REAL_USE,
} from '../../../src/shared/bin/built-in-dataset.ts';
import { createDataset, createDatasetBuilder, type DatasetEntry } from '../../../src/shared/bin/dataset-builder.ts';
import { bin, datasetOf } from '../../support/bins.ts';
import { findByScan } from '../../support/reference-dataset.ts';

const DK = { country: 'DK' };

describe('longest match', () => {
  const dataset = datasetOf(
    { start: '400000', end: '400009', brand: 'wide', ...DK },
    { start: '400001', end: '400001', brand: 'six', ...DK },
    { start: '4000011', end: '4000011', brand: 'seven', ...DK },
    { start: '40000110', end: '40000115', brand: 'eight', ...DK },
    { start: '40000112', end: '40000112', brand: 'narrow', ...DK },
  );
  test.each([
    ['40000112', 'narrow', 8],
    ['40000111', 'eight', 7],
    ['40000115', 'eight', 7],
    ['40000116', 'seven', 7],
    ['40000120', 'six', 6],
    ['4000011', 'seven', 7],
    ['400001', 'six', 6],
    ['400000', 'wide', 5],
    ['40000999', 'wide', 5],
  ])('%s finds %s by %i digits', (digits, brand, digitsMatched) => {
    expect(dataset.find(bin(digits))).toMatchObject({ record: { brand }, digitsMatched });
  });

  test.each(['399999', '400010', '40001000', '99999999', '000000'])('%s finds nothing', (digits) => {
    expect(dataset.find(bin(digits))).toBeUndefined();
  });

  test('longer entries do not match shorter numbers, unless they cover all of them', () => {
    expect(datasetOf({ start: '40000112', end: '40000112', ...DK }).find(bin('400001'))).toBeUndefined();
    expect(datasetOf({ start: '00400001', end: '00400001', ...DK }).find(bin('400001'))).toBeUndefined();
    expect(datasetOf({ start: '40000100', end: '40000198', ...DK }).find(bin('400001'))).toBeUndefined();
    const covering = datasetOf({ start: '40000100', end: '40000199', ...DK });
    for (const digits of ['400001', '4000015', '40000157'])
      expect(covering.find(bin(digits))).toMatchObject({ digitsMatched: 6, record: { country: { alpha2: 'DK' } } });
  });

  test('the digits that matched are those that both limits of the range share', () => {
    const careless = datasetOf({ start: '222100', end: '272999', country: 'IT' });
    expect(careless.find(bin('230000'))).toMatchObject({ digitsMatched: 1 });
    expect(careless.find(bin('23000012'))).toMatchObject({ digitsMatched: 1 });
    expect(datasetOf({ start: '399999', end: '400000', ...DK }).find(bin('400000'))).toMatchObject({
      digitsMatched: 0,
    });
  });
});

describe('a row depends on itself and on the rows that overlap it', () => {
  test.each(['999999', '9999991', '99999912', '99999912300-99999912999', '999999120-999999999'])(
    'a row of %s changes nothing for other BINs',
    (text) => {
      const [start = '', end = start] = text.split('-');
      const other = { start, end, country: 'IT', scheme: 'visa' };
      const rows = [
        { start: '43000011', end: '43000011', country: 'DE', bank: { name: 'Alpha' } },
        { start: '527346', end: '527346', country: 'GB' },
        { start: '52734603', end: '52734603', country: 'DE' },
      ];
      const [alone, together] = [datasetOf(...rows), createDatasetBuilder()];
      for (const row of [...rows, other]) together.add(row);
      const { dataset } = together.finish({ source: 'test', asOf: '2026-01-02', licence: 'none' });
      for (const digits of ['430000', '4300001', '43000011', '527346', '5273460', '52734603', '52734604'])
        expect(dataset.find(bin(digits))).toEqual(alone.find(bin(digits)));
      expect(dataset.find(bin('430000'))).toBeUndefined();
      expect(dataset.find(bin('527346'))).toMatchObject({ record: { country: { alpha2: 'GB' } }, digitsMatched: 6 });
    },
  );

  /** Ranges that overlap often, because their limits are near some edges. */
  const entries = fc
    .array(
      fc.constantFrom(6, 7, 8, 9, 10, 11).chain((digits) => {
        const max = 10 ** (digits - 5) - 1;
        const edges = [0, 1, 9, 10, 11, 49, 50, 99].map((percent) => Math.floor((percent / 99) * max));
        const limit = fc
          .oneof(fc.nat(max), fc.constantFrom(...edges))
          .map((value) => `90000${String(value).padStart(digits - 5, '0')}`);
        return fc
          .tuple(limit, limit, fc.constantFrom('A', 'B', undefined), fc.boolean(), fc.constantFrom('DK', 'US'))
          .map(([first, second, brand, prepaid, country]): DatasetEntry => {
            const [start = '', end = ''] = [first, second].sort();
            return { start, end, prepaid, country, ...(brand && { brand }) };
          });
      }),
      { minLength: 1, maxLength: 12 },
    )
    // Some ranges come twice.
    .chain((list) =>
      fc.subarray(list).map((again) => [...list, ...again.map((entry) => ({ ...entry, country: 'SE' }))]),
    );
  const bins = fc.array(
    fc
      .constantFrom(1, 2, 3)
      .chain((digits) => fc.nat(10 ** digits - 1).map((value) => `90000${String(value).padStart(digits, '0')}`)),
    { maxLength: 30 },
  );
  const built = (list: readonly DatasetEntry[]) => {
    const builder = createDatasetBuilder();
    const taken = list.filter((entry) => builder.add(entry) === undefined);
    return { taken, dataset: builder.finish({ source: 'test', asOf: '2026-01-02', licence: 'none' }).dataset };
  };

  test('any data set agrees with a plain reference', () => {
    fc.assert(
      fc.property(entries, bins, (list, numbers) => {
        const { dataset } = built(list);
        for (const digits of numbers) {
          const match = dataset.find(bin(digits));
          const { brand, prepaid, country } = match?.record ?? {};
          const found = match && {
            facts: { brand, prepaid, country: country?.alpha2 },
            digitsMatched: match.digitsMatched,
          };
          expect(found).toEqual(findByScan(list, digits));
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test('a row changes no answer for a BIN that it does not contain, wherever it stands', () => {
    fc.assert(
      fc.property(entries, bins, fc.nat(20), (list, numbers, at) => {
        const [row, ...others] = list;
        if (!row) return;
        const [alone, together] = [built(others), built(others.toSpliced(at, 0, row))];
        for (const digits of numbers) {
          if (findByScan([row], digits) === undefined)
            expect(together.dataset.find(bin(digits))).toEqual(alone.dataset.find(bin(digits)));
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('rows of the same range', () => {
  const row = (start: string, facts: Partial<DatasetEntry>, end = start): DatasetEntry => ({
    start,
    end,
    country: 'US',
    ...facts,
  });
  function build(...rows: DatasetEntry[]) {
    const builder = createDatasetBuilder();
    for (const [index, entry] of rows.entries()) expect(builder.add(entry, index + 2)).toBeUndefined();
    return builder.finish({ source: 'test', asOf: '2026-01-02', licence: 'none' });
  }
  const recordOf = ({ dataset }: ReturnType<typeof build>, digits: string) => dataset.find(bin(digits))?.record;

  test('with different facts keep what all of them say, and are counted with their lines', () => {
    const [first, second] = [{ bank: { name: 'First' } }, { country: 'FR', bank: { name: 'Second' } }];
    const sets = [
      build(row('433333', { scheme: 'visa', ...first }), row('433333', { scheme: 'visa', ...second })),
      build(row('433333', { scheme: 'visa', ...second }), row('433333', { scheme: 'visa', ...first })),
    ];
    for (const set of sets) {
      expect(recordOf(set, '433333')).toEqual({ scheme: 'visa', number: { length: 16, luhn: true } });
      expect(set.conflicts).toEqual({ count: 1, ranges: [{ lines: [2, 3] }] });
    }
  });

  test('of which one says less keep what all of them say, in any order', () => {
    const full = row('433333', { scheme: 'visa', type: 'debit', bank: { name: 'First', city: 'Umeå' } });
    const less = row('433333', { scheme: 'visa', bank: { name: 'First' } });
    for (const rows of [
      [full, less],
      [less, full],
      [less, full, less],
    ]) {
      const set = build(...rows);
      expect(recordOf(set, '433333')).toMatchObject({ country: { alpha2: 'US' }, bank: { name: 'First' } });
      expect(recordOf(set, '433333')).not.toHaveProperty('type');
      expect(set.conflicts.count).toBe(1);
    }
  });

  test('with the same facts are no conflict', () => {
    const set = build(row('433333', { type: 'debit' }), row('433333', { type: 'debit' }));
    expect(set.conflicts).toEqual({ count: 0, ranges: [] });
    expect(recordOf(set, '433333')).toMatchObject({ type: 'debit' });
  });

  test('that share no fact decide that nothing is known, also about a wider range', () => {
    const set = build(row('900000', { type: 'debit' }, '999999'), row('933333', {}), row('933333', { country: 'FR' }));
    expect(recordOf(set, '933333')).toEqual(undefined);
    expect(recordOf(set, '933334')).toMatchObject({ type: 'debit' });
  });

  test('a row of other limits is no conflict, even if it has the same numbers', () => {
    const set = build(row('433333', { type: 'debit' }), row('43333300', { country: 'FR' }, '43333399'));
    expect(set.conflicts.count).toBe(0);
    expect(recordOf(set, '433333')).toMatchObject({ country: { alpha2: 'FR' } });
  });

  test('limits that are padded differently are the same range', () => {
    const set = build(
      row('4333330000000000', { type: 'debit' }, '4333339999999999'),
      row('43333300', { type: 'credit' }, '43333399'),
      row('43333300000', { type: 'debit' }, '43333399999'),
    );
    expect(set.conflicts).toEqual({ count: 1, ranges: [{ lines: [2, 3, 4] }] });
    expect(recordOf(set, '43333312')).not.toHaveProperty('type');
  });

  test('of many, the first hundred are listed, each with ten lines', () => {
    const rows = Array.from({ length: 150 }, (_, index) =>
      ['US', 'FR'].map((country) => row(String(500_000 + index), { country })),
    );
    const many = Array.from({ length: 12 }, (_, index) => row('400000', { brand: `B${index}` }));
    const { conflicts } = build(...rows.flat(), ...many);
    expect(conflicts.count).toBe(151);
    expect(conflicts.ranges).toHaveLength(100);
    expect(conflicts.ranges[0]?.lines).toHaveLength(10);
    expect(conflicts.ranges[1]?.lines).toEqual([2, 3]);
  });
});

describe('ranges of 9 to 19 digits', () => {
  const range = (start: string, end: string, facts: Partial<DatasetEntry> = {}): DatasetEntry => ({
    start,
    end,
    country: 'DK',
    scheme: 'visa',
    type: 'debit',
    ...facts,
  });

  test('count for the BINs of 8 digits that they cover completely, and for shorter ones', () => {
    const dataset = datasetOf(
      range('40000012300', '40000014599', { brand: 'A' }),
      range('5300000000000000', '5300009999999999', { brand: 'B' }),
      range('4600000000000000000', '4609999999999999999', { brand: 'C' }),
    );
    const brandOf = (digits: string) => dataset.find(bin(digits))?.record.brand;
    expect(['40000012', '40000013', '40000014', '4000001', '400000'].map(brandOf)).toEqual([
      undefined,
      'A',
      undefined,
      undefined,
      undefined,
    ]);
    expect(['530000', '5300004', '53000042'].map(brandOf)).toEqual(['B', 'B', 'B']);
    expect(dataset.find(bin('53000042'))).toMatchObject({ digitsMatched: 6 });
    expect(dataset.find(bin('460123'))).toMatchObject({ digitsMatched: 3, record: { brand: 'C' } });
  });

  test.each([
    ['400000123', '400000124'],
    ['4000001234', '4000001234'],
    ['40000012000', '40000012998'],
    ['40000012500', '40000013498'],
    ['4000001230000000', '4000001239999999'],
  ])('%s to %s, which cover no BIN of 8 digits, are left out', (start, end) => {
    const builder = createDatasetBuilder();
    const wide = range('400000', '400000', { brand: 'wide' });
    expect(builder.add(wide)).toBeUndefined();
    expect(builder.add(range(start, end, { country: 'US' }))).toBe('more_than_8_digits');
    const { dataset } = builder.finish({ source: 's', asOf: '2026-01-01', licence: '' });
    for (const digits of ['400000', '4000001', '40000012', '40000013'])
      expect(dataset.find(bin(digits))).toEqual(datasetOf(wide).find(bin(digits)));
  });
});

describe('entries', () => {
  test('keeps all facts, and leaves out absent ones', () => {
    const full: DatasetEntry = {
      start: '457173',
      end: '457173',
      number: { length: 19, luhn: false },
      scheme: 'visa',
      type: 'debit',
      brand: 'B',
      prepaid: true,
      country: 'DK',
      bank: { name: 'N', url: 'n.example', phone: '+4589893300', city: 'C' },
    };
    const { start: _start, end: _end, country: _country, ...facts } = full;
    const country = { alpha2: 'DK', numeric: '208', name: 'Denmark', emoji: '🇩🇰', currency: 'DKK' };
    expect(datasetOf(full).find(bin('457173'))?.record).toEqual({
      ...facts,
      country: { ...country, latitude: 56, longitude: 10 },
    });

    const recordWithoutFacts = datasetOf({ start: '999999', end: '999999', ...DK }).find(bin('999999'))?.record ?? {};
    expect(Object.keys(recordWithoutFacts)).toEqual(['country']);
  });

  test('the rules of the network that an entry names complete the number; a network is never guessed', () => {
    const dataset = datasetOf(
      { start: '340000', end: '340000', scheme: 'amex', ...DK },
      { start: '410000', end: '410000', ...DK },
      { start: '400000', end: '400000', scheme: 'mastercard', number: { length: 13 }, ...DK },
    );
    expect(dataset.find(bin('340000'))?.record).toMatchObject({ scheme: 'amex', number: { length: 15, luhn: true } });
    expect(Object.keys(dataset.find(bin('410000'))?.record ?? {})).toEqual(['country']);
    expect(dataset.coverage.schemes).toEqual({ amex: 1, '': 1, mastercard: 1 });
    expect(dataset.find(bin('400000'))?.record).toMatchObject({
      scheme: 'mastercard',
      number: { length: 13, luhn: true },
    });
  });

  test.each([
    ['leading_zeros_lost', { start: '40000', end: '40000', country: 'DK' }],
    ['not_6_to_11_digits', { start: '4000000000000000', end: '4000000000000000', country: 'DK' }],
    ['not_6_to_11_digits', { start: '4571736012345674', end: '4571736012345674', country: 'DK' }],
    ['not_6_to_11_digits', { start: '400000120000', end: '400000129998', country: 'DK' }],
    ['not_6_to_11_digits', { start: '4'.padEnd(20, '0'), end: '4'.padEnd(20, '9'), country: 'DK' }],
    ['range_reversed', { start: '400000120', end: '400000119', country: 'DK' }],
    ['not_6_to_11_digits', { start: '400000', end: '4000009', country: 'DK' }],
    ['range_reversed', { start: '400001', end: '400000', country: 'DK' }],
    ['country_missing', { start: '400000', end: '400000', country: '' }],
    ['country_unknown', { start: '400000', end: '400000', country: 'QQ' }],
  ])('refuses an entry with the fault %s', (fault, entry) => {
    expect(createDatasetBuilder().add(entry)).toBe(fault);
    expect(() => createDataset({ entries: [entry], source: 's', asOf: '2026-01-01', licence: '' })).toThrow(fault);
  });

  test('375,000 rows need less than 60 MB, and a lookup takes less than 2 microseconds', () => {
    const memoryBefore = memoryInUse();
    const builder = createDatasetBuilder();
    for (let index = 0; index < 375_000; index++) {
      const start = String(400_000 + index);
      const bank = { name: `Bank number ${index % 30_000}`, phone: `+45 3312 ${1_000 + (index % 9_000)}` };
      builder.add({ start, end: start, country: 'DK', scheme: 'visa', type: 'debit', bank });
    }
    const { dataset } = builder.finish({ source: 's', asOf: '2026-01-01', licence: '' });
    expect(memoryInUse() - memoryBefore).toBeLessThan(60e6);

    const numbers = Array.from({ length: 1_000 }, (_, index) => bin(String(40_000_000 + index * 37_003)));
    let matches = 0;
    let bestMicroseconds = Number.POSITIVE_INFINITY;
    let rounds = 0;
    // The best of up to a hundred rounds, in CPU time of this thread, because a busy machine also slows the caches.
    while (rounds < 10 || (rounds < 100 && bestMicroseconds >= 2)) {
      rounds += 1;
      const usageBefore = process.threadCpuUsage();
      for (let turn = 0; turn < 30; turn++) {
        for (const number of numbers) if (dataset.find(number)) matches++;
      }
      const { user, system } = process.threadCpuUsage(usageBefore);
      bestMicroseconds = Math.min(bestMicroseconds, (user + system) / 30_000);
    }
    expect(matches).toBe(rounds * 30_000);
    expect(bestMicroseconds).toBeLessThan(2);
  });
});

describe('built-in data set', () => {
  const dataset = builtInDataset();

  test('has the public example of the service', () => {
    expect(dataset.find(bin('45717360'))).toEqual({
      digitsMatched: 8,
      record: {
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
      },
    });
  });

  test('has every prefix of banks-db, each five-digit one as ten six-digit ones', () => {
    expect(dataset.size).toBe(17_323 + 1);
    for (const digits of ['427650', '427659', '42765512']) {
      expect(dataset.find(bin(digits))).toMatchObject({
        digitsMatched: 5,
        record: { scheme: 'visa', country: { alpha2: 'RU' }, bank: { name: 'Sberbank', url: 'www.sberbank.ru' } },
      });
    }
  });

  test('a prefix of several banks keeps what they have in common', () => {
    const banks = readdirSync('node_modules/banks-db/banks', { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.json'))
      .flatMap((path) => JSON.parse(readFileSync(`node_modules/banks-db/banks/${path}`, 'utf8')));
    const banksByPrefix = new Map<string, { country: string; name: string }[]>();
    for (const { country, engTitle, localTitle, prefixes } of banks)
      for (const prefix of new Set<number>(prefixes)) {
        const bank = { country: country.toUpperCase(), name: engTitle ?? localTitle };
        banksByPrefix.set(String(prefix), [...(banksByPrefix.get(String(prefix)) ?? []), bank]);
      }
    const inCommon = (values: string[]) => (new Set(values).size === 1 ? values[0] : undefined);
    const shared = [...banksByPrefix].filter(([prefix, owners]) => owners.length > 1 && prefix.length === 6);
    for (const [prefix, owners] of shared) {
      const { country, bank } = dataset.find(bin(prefix))?.record ?? {};
      expect([prefix, country?.alpha2]).toEqual([prefix, inCommon(owners.map((owner) => owner.country))]);
      expect([prefix, bank?.name]).toEqual([prefix, inCommon(owners.map(({ name }) => name))]);
    }
    const countries = shared.map(([, owners]) => inCommon(owners.map(({ country }) => country)));
    expect(countries.filter((country) => country === undefined).length).toBeGreaterThan(10);
    expect(countries.filter((country) => country !== undefined).length).toBeGreaterThan(10);
    const { country, bank } = dataset.find(bin('534714'))?.record ?? {};
    expect([country, bank]).toEqual([undefined, undefined]);
  });

  test('names its source and licence', () => {
    const { version } = JSON.parse(readFileSync('node_modules/banks-db/package.json', 'utf8'));
    expect(dataset).toMatchObject({ source: `banks-db ${version}`, asOf: '2017-07-16', licence: 'CC BY 4.0' });
    expect(BUILT_IN_ATTRIBUTION).toContain(`banks-db ${version}`);
  });

  test('is described as an example of 2017, mostly of one country, which lacks facts', () => {
    const ofUnitedStates = (dataset.coverage.countries.US ?? 0) / dataset.size;
    expect(BUILT_IN_ABOUT).toContain(`${Math.round(ofUnitedStates * 100)} % of its prefixes are of the United States`);
    expect(BUILT_IN_ABOUT).toContain(dataset.asOf.slice(0, 4));

    const text = readFileSync('docs/bin-data.md', 'utf8');
    expect(text).toContain(`\n${IMPORT_COMMAND}\n`);

    for (const words of [BUILT_IN_ABOUT, REAL_USE]) expect(text.replaceAll(/\s+/g, ' ')).toContain(words);
    const facts = new Set<string>();
    for (let prefix = 100_000; prefix < 1_000_000; prefix += 7) {
      const { type, brand, prepaid, bank } = dataset.find(bin(String(prefix)))?.record ?? {};
      for (const [name, value] of Object.entries({ type, brand, prepaid, phone: bank?.phone, city: bank?.city }))
        if (value !== undefined) facts.add(name);
    }
    expect(facts).toEqual(new Set());
  });
});

/** Bytes of the heap and of typed arrays after a full collection. */
function memoryInUse(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
