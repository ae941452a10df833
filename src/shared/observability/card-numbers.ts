/** Finds card numbers in texts, so that none is logged, stored or passed on (R85, R86). */

const MIN_CARD_DIGITS = 13;
const MAX_CARD_DIGITS = 19;
const SEPARATORS = new Set([' ', '\u00a0', '-', '\u2010', '\u2011', '\u2013', '.']);
/** The code point of zero in each supported script: ASCII, Arabic-Indic, Persian, Devanagari, full width. */
const ZEROS = [0x30, 0x660, 0x6f0, 0x966, 0xff10];
const DIGIT = ZEROS.map((zero) => String.fromCharCode(zero, 0x2d, zero + 9)).join('');
const SEPARATOR = [...SEPARATORS].join('').replace('-', '\\-');
/** Matches every text with a card number and few others, so that most texts need only this check. */
const CANDIDATE = new RegExp(`(?:[${DIGIT}][${SEPARATOR}]?){${MIN_CARD_DIGITS}}`);
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
const REMOVED = '[digits removed]';

/** Adjacent digits, with their position in the text (`end` is exclusive). */
interface Group {
  digits: number[];
  start: number;
  end: number;
}

/**
 * Returns whether the text contains 13 to 19 digits that pass the Luhn check (ISO/IEC 7812-1 annex B), together or in
 * groups with one space, dash or dot between them. Longer runs without a separator, and UUIDs, do not count.
 */
export function containsCardNumber(text: string): boolean {
  return CANDIDATE.test(text) && !cardNumbers(text).next().done;
}

/** Replaces every card number by `[digits removed]` (R86). Linear in the text's length. */
export function scrubCardNumbers(text: string): string {
  if (!CANDIDATE.test(text)) return text;
  let result = '';
  let copiedTo = 0;
  for (const { start, end } of cardNumbers(text)) {
    result += text.slice(copiedTo, start) + REMOVED;
    copiedTo = end;
  }
  return result + text.slice(copiedTo);
}

/** Yields the positions of card numbers. It is slow, so call it only for texts that match `CANDIDATE`. */
function* cardNumbers(text: string): Generator<{ start: number; end: number }> {
  // One in some hundred UUIDs, such as request ids, ends in groups that look like a card number.
  const masked = text.replace(UUID, (id) => (/[a-f]/i.test(id) ? '_'.repeat(id.length) : id));
  for (const run of digitRuns(masked)) {
    let end = 0;
    for (const [index, group] of run.entries()) {
      if (group.start < end) continue;
      const numberEnd = cardNumberEnd(run, index);
      if (numberEnd === undefined) continue;
      yield { start: group.start, end: numberEnd };
      end = numberEnd;
    }
  }
}

/** Returns the end of the longest card number that begins with this group; other digits may follow it. */
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

/** Yields runs of groups that are joined by single separators. */
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
