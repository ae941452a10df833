import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NETWORK_RULES_AS_OF, networkOfBin, networkOfScheme } from '../../../src/shared/bin/network.ts';
import { NETWORK_RANGES, RANGE_SOURCES } from '../../../src/shared/bin/network-ranges.ts';
import { schemeFromName } from '../../../src/shared/bin/scheme-name.ts';

describe('the ranges of networks', () => {
  test('each has a source with a title, an address and a date', () => {
    for (const { source } of NETWORK_RANGES) {
      const { title, address, date } = RANGE_SOURCES[source];
      expect(title).not.toBe('');
      expect(new URL(address).hostname).toContain('.');
      expect(new Date(date).toISOString().slice(0, 10)).toBe(date);
      expect(date <= NETWORK_RULES_AS_OF).toBe(true);
    }
    const used = new Set<string>(NETWORK_RANGES.map(({ source }) => source));
    expect(Object.keys(RANGE_SOURCES).filter((source) => !used.has(source))).toEqual([]);
  });

  test('each has limits of the same length in their order, and the name of a network as in records', () => {
    for (const { range, scheme } of NETWORK_RANGES) {
      expect(range).toMatch(/^\d{1,6}(-\d{1,6})?$/);
      const [start = '', end = start] = range.split('-');
      expect([end.length, end >= start]).toEqual([start.length, true]);
      expect(schemeFromName(scheme)).toBe(scheme);
    }
  });
});

const LENGTH_16 = { length: 16, luhn: true };

describe('networkOfBin', () => {
  test.each([
    ['45717360', { scheme: 'visa', number: LENGTH_16, digitsMatched: 1 }],
    ['510000', { scheme: 'mastercard', number: LENGTH_16, digitsMatched: 1 }],
    ['559999', { scheme: 'mastercard', number: LENGTH_16, digitsMatched: 1 }],
    ['222100', { scheme: 'mastercard', number: LENGTH_16, digitsMatched: 1 }],
    ['27209999', { scheme: 'mastercard', number: LENGTH_16, digitsMatched: 1 }],
    ['340000', { scheme: 'amex', number: { length: 15, luhn: true }, digitsMatched: 2 }],
    ['370000', { scheme: 'amex', number: { length: 15, luhn: true }, digitsMatched: 2 }],
    ['360000', { scheme: 'diners', number: { length: 14, luhn: true }, digitsMatched: 2 }],
    ['305999', { scheme: 'diners', number: { length: 14, luhn: true }, digitsMatched: 2 }],
    ['309500', { scheme: 'diners', number: { length: 14, luhn: true }, digitsMatched: 4 }],
    ['601100', { scheme: 'discover', number: LENGTH_16, digitsMatched: 4 }],
    ['644000', { scheme: 'discover', number: LENGTH_16, digitsMatched: 2 }],
    ['659999', { scheme: 'discover', number: LENGTH_16, digitsMatched: 2 }],
    ['353011', { scheme: 'jcb', number: LENGTH_16, digitsMatched: 2 }],
    ['639002', { scheme: 'maestro', number: { luhn: true }, digitsMatched: 4 }],
    ['675900', { scheme: 'maestro', number: { luhn: true }, digitsMatched: 2 }],
    ['62212600', { scheme: 'unionpay', digitsMatched: 2 }],
    ['810000', { scheme: 'unionpay', digitsMatched: 2 }],
    ['220400', { scheme: 'mir', digitsMatched: 3 }],
    ['979200', { scheme: 'troy', digitsMatched: 4 }],
    ['501900', { scheme: 'dankort', digitsMatched: 4 }],
    ['100000', { scheme: 'uatp', digitsMatched: 1 }],
    ['506099', { scheme: 'verve', digitsMatched: 3 }],
    ['607000', { scheme: 'rupay', digitsMatched: 2 }],
    ['508500', { scheme: 'rupay', digitsMatched: 3 }],
    ['817200', { scheme: 'rupay', digitsMatched: 1 }],
    ['509000', { scheme: 'elo', digitsMatched: 5 }],
    ['627780', { scheme: 'elo', digitsMatched: 6 }],
  ])('%s', (bin, network) => expect(networkOfBin(bin)).toEqual(network));

  test.each([
    ['a shared range', ['652150', '650031', '650002', '650052', '384100', '357111', '401178', '493698', '194600']],
    ['a part of 6 that Mastercard does not publish as Maestro', ['600000', '640000', '660000', '690000', '639100']],
    ['a part of 50 or 56-59', ['500000', '507803', '504834', '560000', '590000', '581700']],
    ['a number next to a range', ['222099', '272100', '306000', '309400', '352799', '359000', '621999', '623797']],
    ['a number of no network', ['000000', '999999', '700000', '860000']],
  ])('names no network for %s', (_kind, bins) => {
    expect(bins.filter((bin) => networkOfBin(bin) !== undefined)).toEqual([]);
  });

  test('names no network for a BIN that a range covers in part', () => {
    expect(['63909', '62379', '5', '431'].map((prefix) => networkOfBin(prefix)?.scheme)).toEqual([
      'maestro',
      undefined,
      undefined,
      undefined,
    ]);
    expect(networkOfBin('62379699')?.scheme).toBe('unionpay');
    // Of the 100,000 numbers that begin with 6, few are Maestro.
    const sixes = Array.from({ length: 100_000 }, (_, index) => String(600_000 + index));
    const maestro = sixes.filter((bin) => networkOfBin(bin)?.scheme === 'maestro');
    expect(maestro.filter((bin) => !/^(6390|67)/.test(bin))).toEqual([]);
    expect(maestro).toHaveLength(10_100);
  });

  const edges = NETWORK_RANGES.flatMap(({ range }) => range.split('-')).flatMap((edge) =>
    [Number(edge) - 1, Number(edge), Number(edge) + 1].map(String),
  );
  const bins = fc
    .tuple(fc.oneof(fc.constantFrom(...edges), fc.constant('')), fc.stringMatching(/^[0-9]{8}$/))
    .chain(([edge, rest]) => fc.constantFrom(6, 7, 8).map((digits) => (edge + rest).slice(0, digits)));
  const isIn = (number: string, range: string) => {
    const [start = '', end = start] = range.split('-');
    const digits = number.slice(0, start.length);
    return digits >= start && digits <= end;
  };
  const digitsBeforeDifference = (range: string) => {
    const [start = '', end = start] = range.split('-');
    return Array.from(start).reduce(
      (count, _digit, index) => (end.startsWith(start.slice(0, index + 1)) ? index + 1 : count),
      0,
    );
  };

  test('a network is named only if each number of the BIN is in a range of it, and in none of another', () => {
    fc.assert(
      fc.property(bins, fc.stringMatching(/^[0-9]{2}$/), (bin, rest) => {
        const network = networkOfBin(bin);
        const number = (bin + rest).slice(0, 8);
        const ranges = NETWORK_RANGES.filter(({ range }) => isIn(number, range));
        const schemes = new Set(ranges.map(({ scheme }) => scheme));
        if (network) {
          expect([...schemes]).toEqual([network.scheme]);
          const limits = ranges.map(({ range }) => digitsBeforeDifference(range));
          expect(limits).toContain(network.digitsMatched);
        } else if (bin.length === 8) expect(schemes.size).not.toBe(1);
      }),
      { numRuns: 5_000 },
    );
  });

  test('an unknown network adds no facts', () => {
    expect(networkOfScheme('somebody')).toEqual({ scheme: 'somebody' });
  });
});
