/** The BIN record: its shape, and how one is read from the response of an untrusted service. */
import { z } from 'zod';
import { countryByAlpha2, countrySchema } from './country.ts';
import { schemeFromName } from './network.ts';
import { internationalPhone } from './phone.ts';

/**
 * Facts about a BIN without the unknown ones. `bank.url` has no `https://`, `bank.phone` is in the form of E.164, and
 * `type` is `debit`, `credit` or similar.
 */
export const recordSchema = z
  .object({
    number: z.object({ length: z.int().exactOptional(), luhn: z.boolean().exactOptional() }).exactOptional(),
    scheme: z.string().exactOptional(),
    type: z.string().exactOptional(),
    brand: z.string().exactOptional(),
    prepaid: z.boolean().exactOptional(),
    country: countrySchema.readonly().exactOptional(),
    bank: z
      .object({
        name: z.string().exactOptional(),
        url: z.string().exactOptional(),
        phone: z.string().exactOptional(),
        city: z.string().exactOptional(),
      })
      .exactOptional(),
  })
  .describe('Facts that are not known are left out.');
export type BinRecord = z.output<typeof recordSchema>;
export type BankFacts = NonNullable<BinRecord['bank']>;

const optional = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);
const group = <Shape extends z.ZodRawShape>(shape: Shape) => optional(z.object(shape));
const line = (maxLength: number) =>
  optional(
    z
      .string()
      .transform((text) => cleanText(text, maxLength))
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
 * Reads the response of a BIN lookup service. Parts that are absent, null, empty or of the wrong type are left out, as
 * are unknown fields. The country is completed by its alpha-2 code. A record without any fact is empty. Returns
 * undefined for anything but a JSON object.
 */
export function recordFromResponse(answer: unknown): BinRecord | undefined {
  const read = answerSchema.safeParse(answer);
  if (!read.success) return undefined;
  const { number, country, bank, ...facts } = read.data;
  return withoutEmpty({
    number: number && withoutEmpty(number),
    ...facts,
    country:
      country && withoutEmpty({ ...(country.alpha2 && countryByAlpha2(country.alpha2)), ...withoutEmpty(country) }),
    bank: bank && withoutEmpty({ ...bank, phone: bank.phone && internationalPhone(bank.phone, country?.alpha2) }),
  });
}

export function isEmptyRecord(record: BinRecord): boolean {
  return Object.keys(record).length === 0;
}

/** Visible ASCII with single spaces. */
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;

/** Returns the text on one line, without control and invisible characters, cut to the maximum length. */
export function cleanText(text: string, maxLength: number): string {
  // A fast path: nearly all of the millions of texts in a data set are plain.
  if (text.length <= maxLength && PLAIN.test(text)) return text;
  return [...text.slice(0, maxLength * 4).replace(/[\p{C}\s]+/gu, ' ')].slice(0, maxLength).join('').trim();
}

/** Removes `https://` and the final slash. Undefined unless a plain host name with an optional path is left. */
export function bareUrl(text: string): string | undefined {
  if (text.length > 200) return undefined;
  const bare = text
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/+$/, '');
  return /^[a-z0-9-]+(\.[a-z0-9-]+)+(\/[\w.~%/-]*)?$/i.test(bare) ? bare : undefined;
}

type WithoutEmpty<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Removes undefined members and empty objects. */
export function withoutEmpty<T extends object>(parts: T): WithoutEmpty<T> {
  // A loop for speed: the import of a data set calls this a million times.
  const members: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(parts)) {
    if (value !== undefined && !isEmptyObject(value)) members[name] = value;
  }
  return members as WithoutEmpty<T>;
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
