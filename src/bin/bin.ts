/** Owns what a BIN is, and the guard that keeps card numbers out of everything that is written or sent. */

declare const checked: unique symbol;

/** Six to eight ASCII digits: the first digits of a card number. Only `parseBin` makes one. */
export type Bin = string & { readonly [checked]: true };

const BIN = /^[0-9]{6,8}$/;
const MIN_CARD_DIGITS = 13;
const MAX_CARD_DIGITS = 19;
const SEPARATORS = new Set([' ', '\u00a0', '-', '\u2010', '\u2011', '\u2013', '.']);
/** Code of the zero in each script whose digits people type: ASCII, Arabic-Indic, Persian, Devanagari, full width. */
const ZEROS = [0x30, 0x660, 0x6f0, 0x966, 0xff10];
const DIGIT = ZEROS.map((zero) => String.fromCharCode(zero, 0x2d, zero + 9)).join('');
const SEPARATOR = [...SEPARATORS].join('').replace('-', '\\-');
/** Every text with a card number has this, and few others do: most texts are done with one look. */
const CANDIDATE = new RegExp(`(?:[${DIGIT}][${SEPARATOR}]?){${MIN_CARD_DIGITS}}`);
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
  return CANDIDATE.test(text) && !cardNumbers(text).next().done;
}

/** Puts `[digits removed]` in the place of every card number that `containsCardNumber` would find (R86). Linear in the text's length. */
export function scrubCardNumbers(text: string): string {
  if (!CANDIDATE.test(text)) return text;
  let result = '';
  let kept = 0;
  for (const { start, end } of cardNumbers(text)) {
    result += text.slice(kept, start) + REMOVED;
    kept = end;
  }
  return result + text.slice(kept);
}

/** Costly: for texts that have a candidate. */
function* cardNumbers(text: string): Generator<{ start: number; end: number }> {
  // One request id in some hundreds would pass for a card number by its last groups.
  const masked = text.replace(UUID, (id) => (/[a-f]/i.test(id) ? '_'.repeat(id.length) : id));
  for (const run of digitRuns(masked)) {
    let end = 0;
    for (const [index, group] of run.entries()) {
      if (group.start < end) continue;
      const found = cardNumberEnd(run, index);
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

/** Groups of digits that single separators join. */
function* digitRuns(text: string): Generator<Group[]> {
  let run: Group[] = [];
  for (let index = 0; index < text.length; index++) {
    const group = groupAt(text, index);
    if (!group) continue;
    const last = run.at(-1);
    if (last && !(group.start === last.end + 1 && SEPARATORS.has(text.charAt(last.end)))) {
      yield run;
      run = [];
    }
    run.push(group);
    index = group.end;
  }
  if (run.length > 0) yield run;
}

function groupAt(text: string, start: number): Group | undefined {
  const digits: number[] = [];
  for (let digit = digitAt(text, start); digit !== undefined; digit = digitAt(text, start + digits.length)) {
    digits.push(digit);
  }
  return digits.length > 0 ? { digits, start, end: start + digits.length } : undefined;
}

function digitAt(text: string, index: number): number | undefined {
  const code = text.charCodeAt(index);
  for (const zero of ZEROS) {
    if (code < zero) return undefined;
    if (code <= zero + 9) return code - zero;
  }
  return undefined;
}

function passesLuhn(digits: readonly number[]): boolean {
  let sum = 0;
  for (let index = digits.length - 1, double = false; index >= 0; index--, double = !double) {
    const digit = digits[index] ?? 0;
    sum += double ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit;
  }
  return sum % 10 === 0;
}
