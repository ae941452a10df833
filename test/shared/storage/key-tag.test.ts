import { expect, test } from 'vitest';
import { assertOneTag, keyTag } from '../../../src/shared/storage/key-tag.ts';

test.each([
  ['grant:{user1}:app', 'user1'],
  ['{a}{b}', 'a'],
  ['x{}y', 'x{}y'],
  ['x{{a}}y', '{a'],
  ['x{a', 'x{a'],
  ['x}a{', 'x}a{'],
  ['}{a}', 'a'],
  ['plain', 'plain'],
  ['', ''],
])('the tag of %j is %j', (key, tag) => {
  expect(keyTag(key)).toBe(tag);
});

test('only keys with one tag may change together', () => {
  expect(() => assertOneTag([])).not.toThrow();
  expect(() => assertOneTag(['a:{t}', 'b:{t}', 't'])).not.toThrow();
  expect(() => assertOneTag(['a:{t}', 'a:{u}'])).toThrow(TypeError);
});
