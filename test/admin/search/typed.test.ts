/** What is left of a text that is typed into the search: no secret and no card number. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { searchable } from '../../../src/admin/search/typed.ts';
import { createOpaqueToken } from '../../../src/storage/opaque-token.ts';

test.each(['gthr_', 'gtha_', 'gthl_'])(
  'a token (%s) becomes its prefix and id, alone, in a header or in a URL',
  (prefix) => {
    const { id, text } = createOpaqueToken(prefix);
    for (const typed of [
      text,
      ` ${text}\n`,
      `Bearer ${text}`,
      `https://gatehouse.test/connect/${text}`,
      text.slice(0, 30),
    ])
      expect(searchable(typed)).toBe(`${prefix}${id}`);
    expect(searchable(`${prefix}${id}`)).toBe(`${prefix}${id}`);
  },
);

test.each([
  ['a JWT', `eyJhbGciOiJkaXIifQ.${'x'.repeat(30)}.abc`],
  ['a webhook secret', `whsec_${Buffer.alloc(32, 7).toString('base64')}`],
  ['another long secret', Buffer.alloc(48, 0xfb).toString('base64')],
])('%s is left out', (_, secret) => {
  expect(searchable(secret)).toBe('');
  expect(searchable(`ada ${secret} lovelace`)).toBe('ada lovelace');
});

test.each([
  'ada.lovelace@example.test',
  'u123456789012345678901_.platform',
  '0a1b2c3d',
  '2f1d7a36-5b0e-4c55-9d8f-0a1b2c3d4e5f',
  'https://hooks.example.com/services/of-a-team/with-a-rather-long-path-that-goes-on',
  'Łukasz 李',
])('%s stays', (text) => {
  expect(searchable(`  ${text} `)).toBe(text);
});

test('R86: a card number is left out, and the text has an end', () => {
  expect(searchable('4111 1111 1111 1111')).toBe('[digits removed]');
  expect(searchable('x '.repeat(500))).toHaveLength(199);
});

test('nothing is left to remove: a page that redirects to what is left does so once', () => {
  const part = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('gthr_', 'whsec_', 'eyJ', ' ', 'a'.repeat(41)),
  );
  fc.assert(
    fc.property(fc.array(part), (parts) => {
      const once = searchable(parts.join(''));
      expect(searchable(once)).toBe(once);
    }),
  );
});
