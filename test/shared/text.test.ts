/** Texts that people wrote are cut and counted by characters as users see them, in every script. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { tableText } from '../../src/gatehouse/commands/terminal.ts';
import { characterCount, cutText } from '../../src/shared/text.ts';
import { anyText } from '../support/any-text.ts';

/** One character as users see it, of several code points. */
const CHARACTERS = {
  'an emoji beyond the basic plane': '😀',
  'a family of joined emoji': '👩‍👩‍👧‍👦',
  'an emoji with a skin tone': '👍🏽',
  'an emoji with a variation selector': '❤️',
  'a flag of two letters': '🇩🇪',
  'a flag of tags': '🏴󠁧󠁢󠁳󠁣󠁴󠁿',
  'a keycap': '1️⃣',
  'a letter with a combining mark': 'e\u0301',
  'a letter with several marks': 'a\u0323\u0302\u0301',
  'a Hebrew letter with points': 'שּׁ',
  'an Arabic letter with vowels': 'لَّ',
  'a Devanagari syllable': 'नि',
  'a Thai letter with marks': 'ที่',
  'a Korean syllable of parts': '\u1112\u1161\u11ab',
  'an ideograph beyond the basic plane': '𠮷',
  'a line end': '\r\n',
};

const character = fc.oneof(fc.constantFrom(...Object.values(CHARACTERS), 'a', ' ', 'ß', 'م', 'ש', '漢'), anyText(3));
const text = fc.array(character, { maxLength: 40 }).map((parts) => parts.join(''));

const charactersOf = (value: string) =>
  [...new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(value)].map(({ segment }) => segment);

describe('a cut text', () => {
  test.each(Object.entries(CHARACTERS))('has %s as a whole, or not at all', (_name, whole) => {
    for (let maxLength = 0; maxLength < whole.length; maxLength += 1) {
      expect(cutText(`x${whole}y`, 1 + maxLength)).toBe('x');
      expect(cutText(whole.repeat(3), whole.length + maxLength)).toBe(whole);
    }
    expect(cutText(`x${whole}y`, 1 + whole.length)).toBe(`x${whole}`);
  });

  test('is the longest beginning of whole characters that the limit allows', () => {
    fc.assert(
      fc.property(text, fc.nat(120), (value, maxLength) => {
        const cut = cutText(value, maxLength);
        const [kept, all] = [charactersOf(cut), charactersOf(value)];
        expect(kept).toEqual(all.slice(0, kept.length));
        expect(cut.length).toBeLessThanOrEqual(maxLength);
        const next = all[kept.length];
        if (next !== undefined) expect(cut.length + next.length).toBeGreaterThan(maxLength);
        if (value.isWellFormed()) expect(cut.isWellFormed()).toBe(true);
      }),
    );
  });

  test('is the text itself, if that is short enough', () => {
    fc.assert(fc.property(text, (value) => cutText(value, value.length) === value));
  });

  test('is empty, if its first character is longer than the limit', () => {
    expect(cutText(`e${'\u0301'.repeat(500)}`, 200)).toBe('');
    expect(cutText('abc', -5)).toBe('');
  });
});

test('characters are counted as users see them', () => {
  for (const whole of Object.values(CHARACTERS)) expect(characterCount(`x${whole}y`)).toBe(3);
});

test('the columns of a table are as wide as their characters', () => {
  const table = tableText([
    ['name', 'id'],
    ['Zoe\u0308', '1'],
    ['👩‍👩‍👧‍👦', '2'],
    ['Ann', '3'],
  ]);
  expect(table.split('\n')).toEqual(['name  id', 'Zoe\u0308   1', '👩‍👩‍👧‍👦     2', 'Ann   3']);
});
