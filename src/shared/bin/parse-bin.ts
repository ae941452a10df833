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

/** 457173.0, 4.57E+05, 457,173, ="457173" and '457173, with a point or a comma. */
const SPREADSHEET_NUMBER =
  /^\d+(?:[.,]\d+)?E\+?\d{1,3}$|^\d+[.,]0*$|^\d{1,3}(?:[., '’\u00a0\u202f]\d{3})+(?:[.,]0+)?$|^=?["']\d+["']?$/i;

/**
 * Returns how many digits a number has that a spreadsheet or a program has changed, such as 45717360.0 or 4.57E+07;
 * undefined for any other text.
 */
export function digitsOfSpreadsheetNumber(text: string): number | undefined {
  if (!SPREADSHEET_NUMBER.test(text)) return undefined;
  const exponent = /E\+?(\d+)$/i.exec(text)?.[1];
  return exponent === undefined ? text.replace(/[.,]0*$/, '').replaceAll(/\D/g, '').length : Number(exponent) + 1;
}
