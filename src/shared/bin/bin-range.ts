/** Reads the limits of a row of a data set. Networks publish ranges of up to 19 digits, but a lookup has at most 8. */
import { parseBin } from './parse-bin.ts';

/** Networks assign ranges by the first 11 digits. Longer limits of a range are padded with 0 or 9. */
const ACCOUNT_DIGITS = 11;
const MAX_DIGITS = 8;
/** The number of 11-digit account numbers that an 8-digit BIN covers. */
const NUMBERS_OF_BIN = 10 ** (ACCOUNT_DIGITS - MAX_DIGITS);

/** BINs of `digits` digits. The limits are inclusive. */
export interface BinRange {
  digits: number;
  from: number;
  to: number;
}

/**
 * Returns the range as BINs. Limits of 9 digits or more become the BINs of 8 digits that the range covers completely;
 * there may be none, and `to` is then less than `from`. Undefined unless both limits have 6 to 8 digits, or the same
 * length of up to 19 digits and are padded after the 11th.
 */
export function binRangeOf({ start, end }: { start: string; end: string }): BinRange | undefined {
  if (start.length !== end.length) return undefined;
  if (parseBin(start).bin && parseBin(end).bin) return { digits: start.length, from: Number(start), to: Number(end) };
  if (start.length > 19 || !/^\d{9,11}0*$/.test(start) || !/^\d{9,11}9*$/.test(end)) return undefined;
  const from = Number(start.slice(0, ACCOUNT_DIGITS).padEnd(ACCOUNT_DIGITS, '0'));
  const to = Number(end.slice(0, ACCOUNT_DIGITS).padEnd(ACCOUNT_DIGITS, '9'));
  return {
    digits: MAX_DIGITS,
    from: Math.ceil(from / NUMBERS_OF_BIN),
    to: Math.floor((to + 1) / NUMBERS_OF_BIN) - 1,
  };
}

/** Returns how many leading digits both limits of the range have in common. */
export function sharedDigits({ digits, from, to }: BinRange): number {
  let shared = digits;
  for (let [low, high] = [from, to]; low !== high; shared--) {
    low = Math.floor(low / 10);
    high = Math.floor(high / 10);
  }
  return shared;
}

/** Returns the shorter BINs that the range covers completely; undefined if there are none. */
export function shorterRange({ digits, from, to }: BinRange, shorter: number): BinRange | undefined {
  const size = 10 ** (digits - shorter);
  const [first, last] = [Math.ceil(from / size), Math.floor((to + 1) / size) - 1];
  return first <= last ? { digits: shorter, from: first, to: last } : undefined;
}
