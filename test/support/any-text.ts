/** Arbitrary texts for property tests. The unit of fast-check builds a table of a million entries for each test. */
import fc from 'fast-check';

const SURROGATE = /^[\ud800-\udfff]$/;
const character = fc
  .oneof(fc.nat(0x7f), fc.nat(0xffff), fc.nat(0x10ffff))
  .map((point) => String.fromCodePoint(point))
  // A lone surrogate cannot be sent.
  .map((text) => (SURROGATE.test(text) ? '\ufffd' : text));

export const anyText = (maxLength?: number): fc.Arbitrary<string> =>
  fc.string({ unit: character, ...(maxLength !== undefined && { maxLength }) });
