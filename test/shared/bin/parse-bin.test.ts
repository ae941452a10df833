import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseBin } from '../../../src/shared/bin/parse-bin.ts';
import { anyText } from '../../support/any-text.ts';

const digitsOf = (min: number, max: number) => fc.stringMatching(new RegExp(`^[0-9]{${min},${max}}$`));

describe('parseBin', () => {
  test('R85: accepts every string of 6 to 8 ASCII digits', () => {
    fc.assert(
      fc.property(digitsOf(6, 8), (digits) => {
        expect(parseBin(digits)).toEqual({ bin: digits });
      }),
    );
  });

  test.each([
    ['too short', '45717'],
    ['nine digits', '457173601'],
    ['a card number', '4111111111111111'],
    ['19 digits', '4111111111111111111'],
    ['space inside', '4571 7360'],
    ['space around', ' 457173'],
    ['newline at the end', '457173\n'],
    ['dash', '4571-7360'],
    ['Arabic-Indic digits', '٤٥٧١٧٣'],
    ['full-width digits', '４５７１７３'],
    ['exponent', '4.5e5'],
    ['exponent without a point', '4571e3'],
    ['sign', '+457173'],
    ['hexadecimal', '0x4571'],
    ['empty', ''],
    ['number', 457173],
    ['big integer', 457173n],
    ['array', ['457173']],
    ['object', { toString: () => '457173' }],
    ['null', null],
    ['undefined', undefined],
    ['boxed string', new String('457173')],
  ])('R85: refuses %s without repeating it', (_name, input) => {
    expect(parseBin(input)).toEqual({ problem: 'invalid_bin' });
  });

  test('R85: refuses everything that is not exactly 6 to 8 ASCII digits', () => {
    const anything = fc.oneof(fc.anything(), anyText(), digitsOf(0, 5), digitsOf(9, 30));
    fc.assert(
      fc.property(anything, (input) => {
        fc.pre(!(typeof input === 'string' && /^[0-9]{6,8}$/.test(input)));
        expect(parseBin(input)).toEqual({ problem: 'invalid_bin' });
      }),
    );
  });
});
