/** Search texts without secrets and card numbers. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { searchable } from '../../../../src/gatehouse/admin/search/searchable.ts';
import { createOpaqueToken } from '../../../../src/shared/storage/opaque-token.ts';

test.each(['gthr_', 'gtha_', 'gthl_'])(
  'a token (%s) becomes its prefix and id, alone, in a header or in a URL',
  (prefix) => {
    const { id, text } = createOpaqueToken(prefix);
    for (const entered of [
      text,
      ` ${text}\n`,
      `Bearer ${text}`,
      `https://gatehouse.test/connect/${text}`,
      text.slice(0, 30),
    ])
      expect(searchable(entered)).toBe(`${prefix}${id}`);
    expect(searchable(`${prefix}${id}`)).toBe(`${prefix}${id}`);
  },
);

test.each([
  ['a JWT', `eyJhbGciOiJkaXIifQ.${'x'.repeat(30)}.abc`],
  ['a webhook secret', `whsec_${Buffer.alloc(32, 7).toString('base64')}`],
  ['a token of GitHub', `ghp_${'x1'.repeat(18)}`],
  ['a fine-grained token of GitHub', `github_pat_${'x1'.repeat(11)}_${'x1'.repeat(29)}`],
  // Written in parts, so that secret scanners do not report this file.
  ['a token of Slack', ['xoxb', '123456789012', '1234567890123', 'abcdefABCDEF'].join('-')],
  ['a key of Stripe', ['sk', 'live', 'x1'.repeat(12)].join('_')],
  ['another long secret', Buffer.alloc(48, 0xfb).toString('base64')],
])('removes %s', (_, secret) => {
  expect(searchable(secret)).toBe('');
  expect(searchable(`ada ${secret} lovelace`)).toBe('ada lovelace');
});

test.each([
  'ada.lovelace@example.test',
  'u123456789012345678901_.platform',
  '0a1b2c3d',
  '2f1d7a36-5b0e-4c55-9d8f-0a1b2c3d4e5f',
  'https://hooks.example.com:8443/services',
  'https://hooks.example.com',
  'sk_short',
  'Łukasz 李',
])('keeps %s', (text) => {
  expect(searchable(`  ${text} `)).toBe(text);
});

test.each([
  ['https://hooks.slack.com/services/T0A1/B0A1/0123456789abcdefghijABCD', 'https://hooks.slack.com/services'],
  ['https://hooks.example.com/0123456789abcdefghijABCD', 'https://hooks.example.com'],
  ['https://hooks.example.com/in?token=0123456789', 'https://hooks.example.com/in'],
  ['https://hooks.example.com?token=0123456789', 'https://hooks.example.com'],
  ['https://user:secret@hooks.example.com/in#secret', 'https://hooks.example.com/in'],
  ['see HTTPS://hooks.example.com/in/secret today', 'see HTTPS://hooks.example.com/in today'],
])('keeps the origin and the beginning of the path of %s', (entered, text) => {
  expect(searchable(entered)).toBe(text);
});

test('R86: removes card numbers, and limits the length', () => {
  expect(searchable('4111 1111 1111 1111')).toBe('[digits removed]');
  expect(searchable('x '.repeat(500))).toHaveLength(199);
});

test('does not change a text that it returned, so a page redirects once', () => {
  const part = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('gthr_', 'whsec_', 'eyJ', ' ', 'a'.repeat(41), 'https://', 'host/', 'u:p@', 'ghp_', 'x1'.repeat(9)),
  );
  fc.assert(
    fc.property(fc.array(part), (parts) => {
      const text = searchable(parts.join(''));
      expect(searchable(text)).toBe(text);
    }),
  );
});
