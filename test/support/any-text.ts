/** Texts of any characters for property tests. fast-check's own unit for that makes a table of a million entries for each test. */
import fc from 'fast-check';

const SURROGATE = /^[\ud800-\udfff]$/;
const character = fc
  .oneof(fc.nat(0x7f), fc.nat(0xffff), fc.nat(0x10ffff))
  .map((point) => String.fromCodePoint(point))
  // Half a pair could not be sent at all.
  .map((text) => (SURROGATE.test(text) ? '\ufffd' : text));

export const anyText = (maxLength?: number): fc.Arbitrary<string> =>
  fc.string({ unit: character, ...(maxLength !== undefined && { maxLength }) });
