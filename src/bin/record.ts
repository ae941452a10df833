/** Owns the BIN record: its shape, and how one is read from an answer that nobody vouches for. */
import { z } from 'zod';
import { type CountryFacts, countryByAlpha2 } from './country.ts';
import { schemeFromName } from './network.ts';

/** What is known about a BIN; absent facts are left out. `bank.url` has no scheme prefix, `type` is `debit`, `credit` or the like. */
export interface BinRecord {
  number?: { length?: number; luhn?: boolean };
  scheme?: string;
  type?: string;
  brand?: string;
  prepaid?: boolean;
  country?: Readonly<CountryFacts>;
  bank?: BankFacts;
}

export interface BankFacts {
  name?: string;
  url?: string;
  phone?: string;
  city?: string;
}

const optional = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);
const group = <Shape extends z.ZodRawShape>(shape: Shape) => optional(z.object(shape));
const line = (most: number) =>
  optional(
    z
      .string()
      .transform((text) => cleanText(text, most))
      .pipe(z.string().min(1)),
  );

const name = (pattern: RegExp) => z.string().trim().toLowerCase().regex(pattern);

const answerSchema = z.object({
  number: group({ length: optional(z.int().min(8).max(19)), luhn: optional(z.boolean()) }),
  scheme: optional(name(/^[a-z0-9][a-z0-9 /-]{0,39}$/).transform(schemeFromName)),
  type: optional(name(/^[a-z][a-z -]{0,19}$/)),
  brand: line(100),
  prepaid: optional(z.boolean()),
  country: group({
    numeric: optional(z.string().regex(/^[0-9]{3}$/)),
    alpha2: optional(
      z
        .string()
        .trim()
        .toUpperCase()
        .regex(/^[A-Z]{2}$/),
    ),
    name: line(100),
    emoji: optional(z.string().regex(/^[\u{1f1e6}-\u{1f1ff}]{2}$/u)),
    currency: optional(z.string().regex(/^[A-Z]{3}$/)),
    latitude: optional(z.number().min(-90).max(90)),
    longitude: optional(z.number().min(-180).max(180)),
  }),
  bank: group({
    name: line(200),
    url: optional(z.string().transform(bareUrl).pipe(z.string())),
    phone: line(40),
    city: line(100),
  }),
});

/**
 * Reads the answer of a BIN lookup service: any part may be absent, null, empty or of the wrong type and is then left
 * out, as are unknown fields. The country is completed by its alpha-2 code. A record without any fact comes back empty.
 * Answers undefined for what is not a JSON object.
 */
export function recordFromAnswer(answer: unknown): BinRecord | undefined {
  const read = answerSchema.safeParse(answer);
  if (!read.success) return undefined;
  const { number, country, bank, ...facts } = read.data;
  return onlyKnown({
    number: number && onlyKnown(number),
    ...facts,
    country: country && onlyKnown({ ...(country.alpha2 && countryByAlpha2(country.alpha2)), ...onlyKnown(country) }),
    bank: bank && onlyKnown(bank),
  });
}

/** Whether the record says anything at all. */
export function isEmptyRecord(record: BinRecord): boolean {
  return Object.keys(record).length === 0;
}

/** Visible ASCII with single spaces. */
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;

/** The text on one line without control and invisible characters, cut to that many characters. */
export function cleanText(text: string, most: number): string {
  // Nearly all texts of a data set are so, and there are millions.
  if (text.length <= most && PLAIN.test(text)) return text;
  return [...text.slice(0, most * 4).replace(/[\p{C}\s]+/gu, ' ')].slice(0, most).join('').trim();
}

/** A web address without its scheme prefix and final slash; undefined for what is no plain host name with an optional path. */
export function bareUrl(text: string): string | undefined {
  if (text.length > 200) return undefined;
  const bare = text
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/+$/, '');
  return /^[a-z0-9-]+(\.[a-z0-9-]+)+(\/[\w.~%/-]*)?$/i.test(bare) ? bare : undefined;
}

type Known<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** The object without its undefined and empty parts, in the same order. */
export function onlyKnown<T extends object>(parts: T): Known<T> {
  // A loop, because the import of a data set comes here a million times.
  const known: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(parts)) {
    if (value !== undefined && !isEmptyObject(value)) known[name] = value;
  }
  return known as Known<T>;
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
