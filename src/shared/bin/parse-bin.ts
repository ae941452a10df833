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

/** 457173.0, 4.57E+05, 457,173, 4,57,173, ="457173" and '457173, with a point or a comma. */
const SPREADSHEET_NUMBER =
  /^\d+(?:[.,]\d+)?E\+?\d{1,3}$|^\d+[.,]0*$|^\d{1,3}(?:[., '’\u00a0\u2009\u202f]\d{2,3})*[., '’\u00a0\u2009\u202f]\d{3}(?:[.,]0+)?$|^=?["']\d+["']?$/i;
/** The signs of amounts and percentages around a number. */
const AMOUNT_SIGNS = /^(?:[$€£¥₹]|Rs\.?|USD|EUR)\s?(?=\d)|(?<=\d)\s?(?:[$€£¥₹%]|USD|EUR)$/i;
/** 2/9/3151, 3151-09-02 00:00, 2-Sep-51, Sep-51, and ######## in place of a date or a number that is too wide. */
const SPREADSHEET_DATE =
  /^(?:\d{1,2}([-/.])\d{1,2}\1\d{2,4}|\d{4}([-/.])\d{1,2}\2\d{1,2})(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?$|^(?:\d{1,2}[- ])?\p{L}{3,9}\.?[- ]\d{2,4}$|^#{3,}$/u;
/** A date stands for a number of about as many days. */
const DIGITS_OF_DATE = 6;

/**
 * Returns how many digits a number has that a spreadsheet or a program has changed, such as 45717360.0 or 4.57E+07;
 * undefined for any other text.
 */
export function digitsOfSpreadsheetNumber(text: string): number | undefined {
  // Fast path: nearly all of the texts are plain numbers.
  if (/^\d*$/.test(text)) return undefined;
  if (SPREADSHEET_DATE.test(text)) return DIGITS_OF_DATE;
  const number = text.replace(AMOUNT_SIGNS, '');
  if (!SPREADSHEET_NUMBER.test(number)) return number !== text && /^\d+$/.test(number) ? number.length : undefined;
  const exponent = /E\+?(\d+)$/i.exec(number)?.[1];
  return exponent === undefined ? number.replace(/[.,]0*$/, '').replaceAll(/\D/g, '').length : Number(exponent) + 1;
}
