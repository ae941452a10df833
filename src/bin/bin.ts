/** Owns what a BIN is, and the guard that keeps card numbers out of everything that is written or sent. */

declare const checked: unique symbol;

/** Six to eight ASCII digits: the first digits of a card number. Only `parseBin` makes one. */
export type Bin = string & { readonly [checked]: true };

const BIN = /^[0-9]{6,8}$/;
const MIN_CARD_DIGITS = 13;
const MAX_CARD_DIGITS = 19;
/** Code of the zero in each script whose digits people type: ASCII, Arabic-Indic, Persian, Devanagari, full width. */
const ZEROS = [0x30, 0x660, 0x6f0, 0x966, 0xff10];
const DIGIT = `[${ZEROS.map((zero) => String.fromCharCode(zero, 0x2d, zero + 9)).join('')}]`;
/** Spaces, dashes and the dot. */
const SEPARATOR = '[ \u00a0\\-\u2010\u2011\u2013.]';
/** Digits that single separators join, so many that a card number may be among them. */
const RUN = `(?:${DIGIT}${SEPARATOR}?){${MIN_CARD_DIGITS},}`;
const [DIGITS, RUNS] = [new RegExp(`${DIGIT}+`, 'g'), new RegExp(RUN, 'g')];
/** Few texts have one: the others are done with one look. */
const HAS_RUN = new RegExp(RUN);
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
const REMOVED = '[digits removed]';

/** Digits that stand together, with their place in the text (`end` is exclusive). */
interface Group {
  digits: number[];
  start: number;
  end: number;
}

/** Accepts a string of exactly 6 to 8 ASCII digits (R85). A refusal never repeats the value. */
export function parseBin(input: unknown): { bin: Bin; problem?: never } | { bin?: never; problem: 'invalid_bin' } {
  return typeof input === 'string' && BIN.test(input) ? { bin: input as Bin } : { problem: 'invalid_bin' };
}

/**
 * Whether the text holds 13 to 19 digits that pass the Luhn check (ISO/IEC 7812-1 annex B), written together or in
 * groups with one space, dash or dot between them. Longer runs without a separator, and UUIDs, are no card numbers.
 */
export function containsCardNumber(text: string): boolean {
  return HAS_RUN.test(text) && !cardNumbers(text).next().done;
}

/** Puts `[digits removed]` in the place of every card number that `containsCardNumber` would find (R86). Linear in the text's length. */
export function scrubCardNumbers(text: string): string {
  if (!HAS_RUN.test(text)) return text;
  let result = '';
  let kept = 0;
  for (const { start, end } of cardNumbers(text)) {
    result += text.slice(kept, start) + REMOVED;
    kept = end;
  }
  return result + text.slice(kept);
}

function* cardNumbers(text: string): Generator<{ start: number; end: number }> {
  // One request id in some hundreds would pass for a card number by its last groups.
  const masked = text.replace(UUID, (id) => (/[a-f]/i.test(id) ? '_'.repeat(id.length) : id));
  for (const { 0: run, index: offset } of masked.matchAll(RUNS)) {
    const groups = groupsOf(run, offset);
    let end = 0;
    for (const [index, group] of groups.entries()) {
      if (group.start < end) continue;
      const found = cardNumberEnd(groups, index);
      if (found === undefined) continue;
      yield { start: group.start, end: found };
      end = found;
    }
  }
}

/** End of the longest card number that begins with this group; card numbers beside other digits are found so too. */
function cardNumberEnd(run: readonly Group[], from: number): number | undefined {
  const digits: number[] = [];
  let end: number | undefined;
  for (let index = from; index < run.length; index++) {
    const group = run[index];
    if (!group || digits.length + group.digits.length > MAX_CARD_DIGITS) break;
    digits.push(...group.digits);
    if (digits.length >= MIN_CARD_DIGITS && passesLuhn(digits)) end = group.end;
  }
  return end;
}

/** The groups of digits in a run, with their places in the whole text. */
function groupsOf(run: string, offset: number): Group[] {
  return Array.from(run.matchAll(DIGITS), ({ 0: digits, index }) => {
    const start = offset + index;
    return { digits: Array.from(digits, digitOf), start, end: start + digits.length };
  });
}

function digitOf(character: string): number {
  const code = character.charCodeAt(0);
  return code - (ZEROS.find((zero) => code <= zero + 9) ?? 0);
}

function passesLuhn(digits: readonly number[]): boolean {
  let sum = 0;
  for (let index = digits.length - 1, double = false; index >= 0; index--, double = !double) {
    const digit = digits[index] ?? 0;
    sum += double ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit;
  }
  return sum % 10 === 0;
}
