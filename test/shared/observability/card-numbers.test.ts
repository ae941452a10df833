import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { containsCardNumber, scrubCardNumbers } from '../../../src/shared/observability/card-numbers.ts';
import { withCheckDigit } from '../../support/bins.ts';

const digitsOf = (min: number, max: number) => fc.stringMatching(new RegExp(`^[0-9]{${min},${max}}$`));
const cardNumbers = digitsOf(12, 18).map(withCheckDigit);

describe('card number guard', () => {
  test('R86: finds and removes card numbers of 13 to 19 digits in any text, grouped or not', () => {
    const around = fc.stringMatching(/^[a-z:=/"]{0,10}$/);
    const separators = fc.constantFrom('', ' ', '-', '.', '\u00a0', '\u2010', '\u2011', '\u2013');
    fc.assert(
      fc.property(around, cardNumbers, separators, around, (before, number, separator, after) => {
        const written = number.replace(/(.{4})(?=.)/g, `$1${separator}`);
        const text = `${before}${written}${after}`;
        expect(containsCardNumber(text)).toBe(true);
        expect(scrubCardNumbers(text)).toBe(`${before}[digits removed]${after}`);
      }),
    );
  });

  test.each([0x660, 0x6f0, 0x966, 0xff10])(
    'R86: finds and removes them in the digits of the script with the zero %i',
    (zero) => {
      const written = '4571736000000000'.replace(/\d/g, (digit) => String.fromCharCode(zero + Number(digit)));
      expect(containsCardNumber(written)).toBe(containsCardNumber('4571736000000000'));
      expect(scrubCardNumbers(`a ${written} b`)).toBe(scrubCardNumbers('a 4571736000000000 b'));
      expect(scrubCardNumbers(`a ${written} b`)).not.toContain(written);
    },
  );

  test('R86: a scrubbed text holds no card number', () => {
    const text = fc.array(fc.oneof(cardNumbers, digitsOf(1, 9), fc.constantFrom(' ', '-', '.', ':', 'x', '  ')));
    fc.assert(
      fc.property(text, (parts) => {
        expect(containsCardNumber(scrubCardNumbers(parts.join('')))).toBe(false);
      }),
    );
  });

  test('R86: finds a card number next to other digits', () => {
    expect(scrubCardNumbers('4111111111111111 12/28 737')).toBe('[digits removed] 12/28 737');
    expect(scrubCardNumbers('4111 1111 1111 1111 5500 0000 0000 0004')).toBe('[digits removed] [digits removed]');
    expect(scrubCardNumbers('card４１１１１１１１１１１１１１１１')).toBe('card[digits removed]');
  });

  test.each([
    'no digits at all',
    'BIN 45717360 of a card',
    '2026-11-21T07:29:31.123Z',
    '1732174171120',
    '4111111111111112',
    '4111  1111  1111  1111',
    '550e8400-e29b-41d4-a716-446655440000',
    'urn:uuid:00000000-0000-4000-a000-000000000000',
    '411111111111111111111111',
    '127.0.0.1:3000',
  ])('leaves %s alone', (text) => {
    expect(containsCardNumber(text)).toBe(false);
    expect(scrubCardNumbers(text)).toBe(text);
  });

  test('keeps numbers that do not pass the Luhn check', () => {
    fc.assert(
      fc.property(cardNumbers, (number) => {
        const wrong = number.slice(0, -1) + ((Number(number.at(-1)) + 1) % 10);
        expect(scrubCardNumbers(`id ${wrong}`)).toBe(`id ${wrong}`);
      }),
    );
  });

  test.each([
    ['one long run', '4'.repeat(1_000_000)],
    ['endless groups', '1 '.repeat(500_000)],
    ['endless card numbers', '4111111111111111 '.repeat(60_000)],
    ['halves of UUIDs', 'a1b2c3d4-e5f6-'.repeat(70_000)],
    ['separators', '- '.repeat(500_000)],
  ])('stays linear on a megabyte of %s', (_name, text) => {
    // Four times the text takes about four times as long; a quadratic algorithm would take sixteen times as long.
    const quarter = cpuTime(text.slice(0, text.length / 4));
    expect(cpuTime(text)).toBeLessThan(9 * quarter + 100);
  });
});

/** CPU time of this process in milliseconds, the minimum of three runs. */
function cpuTime(text: string): number {
  const times = Array.from({ length: 3 }, () => {
    const startUsage = process.cpuUsage();
    scrubCardNumbers(text);
    return process.cpuUsage(startUsage).user / 1000;
  });
  return Math.min(...times);
}
