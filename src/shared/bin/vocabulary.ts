/** The closed lists of words for the kind of a card and for yes and no, and the words that state no fact. */
import { remembered } from '../remembered.ts';

export type CardType = 'credit' | 'debit' | 'charge' | 'deferred debit';

/** What the word for the kind of a card states. `type` is absent if it says only whether the card is prepaid. */
export interface StatedType {
  type?: CardType;
  prepaid?: boolean;
}

/** The letters are those of Visa's table of account ranges (account funding source). */
const TYPES: Readonly<Record<CardType, string>> = {
  credit: 'credit, c, cr, credito, kredit, kreditkarte, kredi',
  debit: 'debit, d, db, dr, debito, debet, debitkarte, banka, immediate debit, debit immediate, direct debit',
  charge: 'charge, h',
  'deferred debit': 'deferred debit, debit deferred, r, delayed debit, debit delayed, debito diferido, debit differe',
};
const typeOfWord = new Map(
  Object.entries(TYPES).flatMap(([type, words]) => words.split(', ').map((word) => [word, type as CardType])),
);
const CARD_WORDS = /\b(?:cards?|karte|tarjeta|carte|carta|cartao)\b|\bkart[iı]?(?!\p{L})/gu;
/** `Debit/Credit` means that cards of both kinds exist. */
const SEVERAL_KINDS = /[/|&,+]|\b(?:or|and|ou|oder|und|et)\b/i;

/** A word for prepaid, with the words around it that deny it. */
const PREPAID =
  /(?:\b(?:non?|not|never|neither|nor|ex|without|except|excluding|excl|other than|isnt|nicht|keine?|sans) (?:an? )?)?\b(?:non|un)?pre ?(?:pa(?:id|y|ye|yee)|pag[oa]|pagad[oa]|pagat[oa])\b(?: (?:no|n|false|0|excluded|excl)\b)?/g;
const DENIED =
  /^(?:non|un|no\b|not|never|neither|nor|ex\b|without|except|excl|other|isnt|nicht|kein|sans)| (?:no|n|false|0|excluded|excl)$/;
/** In PREPAID NO FEE, it is another word that is denied. */
const OTHER_DENIED = /\bpre ?pa\w+ (?:no|n|0) \w/;

const YES = new Set('y, yes, true, t, 1, 1.0, si, sí, sim, oui, ja, evet, да'.split(', '));
const NO = new Set('n, no, false, f, 0, 0.0, non, nao, não, nein, hayır, hayir, нет'.split(', '));

/** Words that state no fact, without case, spaces and punctuation. */
const NO_FACT = new Set(
  `null nul nil none nan nat na blank empty missing nodata notavailable notapplicable notspecified unspecified
   undefined unknown unknownbank unknownissuer unknownbrand unknownnetwork unknowntype unknowncity`.split(/\s+/),
);
/** What a spreadsheet shows for a formula that fails, such as #N/A, #NV or #DIV/0!. */
const FORMULA_FAULT = /^#(?:n\/?[av]|[\p{L}/0]+[!?])$/iu;
/** ND without punctuation, or N alone, may be a name. */
const ABBREVIATION = /^(?:\\+n|n[./]d\.?)$/i;
const MAX_NO_FACT_CHARACTERS = 20;
/** Such as na or un, or a character that is no letter or digit of ASCII. */
const BEGINNING = new RegExp(
  `^(?:${[...new Set([...NO_FACT].map((word) => word.slice(0, 2)))].join('|')}|.?[^a-z0-9])`,
  'is',
);
const LETTER_OR_DIGIT = /[\p{L}\p{Nd}]/u;

/** Returns whether the text says that nothing is known, such as NULL, nan, N/A, #N/A, - or \N, or has punctuation alone. */
export function isNoFact(text: string): boolean {
  // Fast path: few of the millions of cells are short and begin with such letters, or with punctuation.
  if (text.length > MAX_NO_FACT_CHARACTERS || !BEGINNING.test(text)) return false;
  if (NO_FACT.has(text.toLowerCase().replace(/[^\p{L}\p{Nd}]+/gu, ''))) return true;
  return !LETTER_OR_DIGIT.test(text) || FORMULA_FAULT.test(text) || ABBREVIATION.test(text);
}

const MAX_CHARACTERS = 100;

/**
 * Remembers what was read from the last thousand texts, because a data set has each of them in many rows. A longer text
 * than the lists have is not read: normalized, it can become 18 times as long.
 */
export function remembering<T>(read: (text: string) => T): (text: string) => T | undefined {
  const readBefore = remembered<{ result: T }>(1_000);
  return (text) => {
    if (text.length > MAX_CHARACTERS) return undefined;
    let before = readBefore.get(text);
    if (!before) {
      before = { result: read(text) };
      readBefore.set(text, before);
    }
    return before.result;
  };
}

/** Reads the kind of a card, such as CREDIT, D or PREPAID; undefined for a text that is not understood. */
export const statedType = remembering(readType);

/** Reads whether a text, such as the name of a product, says that a card is prepaid, or that it is not. */
export const prepaidIn = remembering(readPrepaid);

function readType(text: string): StatedType | undefined {
  if (SEVERAL_KINDS.test(text)) return undefined;
  const words = wordsOf(text).replace(CARD_WORDS, ' ');
  const rest = words.replace(PREPAID, ' ').replace(/ +/g, ' ').trim();
  if (rest === 'p') return { prepaid: true };
  const prepaid = readPrepaid(text);
  const type = typeOfWord.get(rest);
  if (prepaid === undefined) return type && { type };
  if (rest === '') return { prepaid };
  return type && { type, prepaid };
}

function readPrepaid(text: string): boolean | undefined {
  // Fast path: few of the hundreds of thousands of names of products have the word.
  if (!/pr[eéè]/i.test(text)) return undefined;
  const words = wordsOf(text);
  if (OTHER_DENIED.test(words)) return undefined;
  const statements = words.match(PREPAID) ?? [];
  const denials = statements.filter((statement) => DENIED.test(statement));
  if (statements.length === 0 || (denials.length > 0 && denials.length < statements.length)) return undefined;
  return denials.length === 0;
}

/** Reads yes or no; undefined for a text that is not understood. */
export function yesOrNoIn(text: string): boolean | undefined {
  const word = text.toLowerCase();
  return YES.has(word) ? true : NO.has(word) ? false : undefined;
}

/** Reads a cell that says whether a card is prepaid: yes or no, or such as PREPAID. */
export function prepaidOrNot(text: string): boolean | undefined {
  const stated = statedType(text);
  return yesOrNoIn(text) ?? (stated?.type === undefined ? stated?.prepaid : undefined);
}

/** Returns the words in lower case, without accents and punctuation. */
export function wordsOf(text: string): string {
  return text
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\p{M}'’®™©]+/gu, '')
    .replace(/[^\p{L}\p{Nd}]+/gu, ' ')
    .trim();
}
