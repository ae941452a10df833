/** Parses BINs. */
declare const checked: unique symbol;

/** Six to eight ASCII digits: the first digits of a card number. Only `parseBin` creates one. */
export type Bin = string & { readonly [checked]: true };

const BIN = /^[0-9]{6,8}$/;

export type ParsedBin = { bin: Bin; problem?: never } | { bin?: never; problem: 'invalid_bin' };

/** Parses a BIN. The problem never repeats the input (R85). */
export function parseBin(input: unknown): ParsedBin {
  return typeof input === 'string' && BIN.test(input) ? { bin: input as Bin } : { problem: 'invalid_bin' };
}
