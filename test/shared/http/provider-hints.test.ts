/** Hints for the provider: valid ones pass, and a refusal names the field without its value. */
import { expect, test } from 'vitest';
import { readHints } from '../../../src/shared/http/provider-hints.ts';

const read = (fields: Record<string, unknown>) => readHints((name) => fields[name]);

test.each([
  {},
  { login_hint: 'ada@example.test' },
  { login_hint: '+49 30 1234567' },
  { login_hint: 'Zoë 漢字' },
  { login_hint: 'a'.repeat(255) },
  { prompt: 'select_account' },
  { prompt: 'login' },
  { ui_locales: 'de' },
  { ui_locales: 'de-CH-1996 zh-Hant-TW en-x-private' },
  { ui_locales: Array(10).fill('en').join(' ') },
  { login_hint: 'ada', prompt: 'login', ui_locales: 'fr' },
])('R110 accepts %j', (hints) => {
  expect(read({ ...hints, scope: 'admin', max_age: '0' })).toEqual(hints);
});

test('an empty field counts as absent', () => {
  expect(read({ login_hint: '', prompt: '', ui_locales: '' })).toEqual({});
});

test.each([
  ['login_hint', 'a'.repeat(256)],
  ['login_hint', 'a\nb'],
  ['login_hint', 'a\u0000b'],
  ['login_hint', 'a\u202eb'],
  ['login_hint', 'a\ud800b'],
  ['login_hint', '4111 1111 1111 1111'],
  ['login_hint', '4111%31111%311111111'],
  ['login_hint', ['a', 'b']],
  ['prompt', 'none'],
  ['prompt', 'consent'],
  ['prompt', 'login consent'],
  ['prompt', 'SELECT_ACCOUNT'],
  ['prompt', ['login', 'login']],
  ['ui_locales', 'de_CH'],
  ['ui_locales', 'de  en'],
  ['ui_locales', ' de'],
  ['ui_locales', 'de,en'],
  ['ui_locales', 'toolongtag-xx'],
  ['ui_locales', Array(11).fill('en').join(' ')],
  ['ui_locales', `en-x-${'a'.repeat(300)}`],
])('R110 refuses %s %j', (name, value) => {
  const refusal = () => read({ [name]: value });
  expect(refusal).toThrow(expect.objectContaining({ code: 'invalid_request' }));
  expect(refusal).toThrow(new RegExp(`^Send "${name}" once: `));
  if (typeof value === 'string' && value.length > 8) expect(refusal).not.toThrow(value);
});
