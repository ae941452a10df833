/** Defines the BIN record: its schema, and how each field is read, stored and shown. */
import { z } from 'zod';
import { type Fact, type Field, field, fieldsOf, flag, text, wholeNumber } from './field.ts';
import { schemeFromName } from './scheme-name.ts';
import { bareUrl, cleanText, line, yesOrNo } from './texts.ts';
import { prepaidOrNot, statedType, yesOrNoIn } from './vocabulary.ts';

/** ISO/IEC 7812-1. */
const numberLength = z.int().min(8).max(19);

const number = z.object({
  length: field(z.int(), {
    response: numberLength,
    cell: (cell) => numberLength.safeParse(Number(cell)).data,
    isUnderstood: (cell) => numberLength.safeParse(Number(cell)).success,
    column: 'length',
    place: wholeNumber(8, 4),
    label: 'Number length',
    format: (length) => `${length} digits`,
  }),
  luhn: field(z.boolean(), {
    ...yesOrNo(yesOrNoIn),
    column: 'luhn',
    place: flag(8, 2),
    label: 'Check digit',
    format: (luhn) => (luhn ? 'Luhn check on the last digit' : 'None'),
  }),
});

const card = z.object({
  /** The network, of those that `schemeFromName` knows. */
  scheme: field(z.string(), {
    response: z.string().transform(schemeFromName).pipe(z.string()),
    cell: schemeFromName,
    isUnderstood: (cell) => schemeFromName(cell) !== undefined,
    column: 'scheme',
    place: text(1),
  }),
  /** The kind of card: `credit`, `debit`, `charge` or `deferred debit`. */
  type: field(z.string(), {
    response: z
      .string()
      .transform((text): string | undefined => statedType(text.trim())?.type)
      .pipe(z.string()),
    cell: (cell) => statedType(cell)?.type,
    isUnderstood: (cell) => statedType(cell) !== undefined,
    column: 'type',
    place: text(2),
  }),
  brand: field(z.string(), { ...line(100), column: 'brand', place: text(3), label: 'Brand' }),
  prepaid: field(z.boolean(), {
    ...yesOrNo(prepaidOrNot),
    column: 'prepaid',
    place: flag(8, 0),
    label: 'Prepaid',
    format: (prepaid) => (prepaid ? 'Yes' : 'No'),
  }),
});

const bank = z.object({
  name: field(z.string(), { ...line(200), column: 'bank', place: text(4) }),
  /** A host name with an optional path, without `https://`. */
  url: field(z.string(), {
    response: z.string().transform(bareUrl).pipe(z.string()),
    cell: bareUrl,
    column: 'url',
    place: text(5),
  }),
  /** In E.164 form, once the entry has been added to a data set. */
  phone: field(z.string(), {
    response: line(40).response,
    cell: (cell) => cleanText(cell, 40) || undefined,
    column: 'phone',
    place: text(6),
  }),
  city: field(z.string(), { ...line(100), column: 'city', place: text(7) }),
});

/** ISO 3166-1 numeric code as three digits, alpha-2 code, English name, flag, ISO 4217 code, degrees. */
const country = z.object({
  numeric: z.string().exactOptional(),
  alpha2: z.string().exactOptional(),
  name: z.string().exactOptional(),
  emoji: z.string().exactOptional(),
  currency: z.string().exactOptional(),
  latitude: z.number().exactOptional(),
  longitude: z.number().exactOptional(),
});
export type CountryFacts = z.output<typeof country>;

export const recordSchema = z
  .object({
    number: number.exactOptional(),
    ...card.shape,
    country: country.readonly().exactOptional(),
    bank: bank.exactOptional(),
  })
  .describe('Unknown facts are absent.');
export type BinRecord = z.output<typeof recordSchema>;

/** The facts of a data set entry. */
export type EntryFacts = Omit<BinRecord, 'country'> & {
  /** ISO 3166-1 alpha-2, upper case; empty if ranges of several countries share the other facts. */
  country: string;
};

const NUMBER = fieldsOf('number', number);
const CARD = fieldsOf(undefined, card);
const BANK = fieldsOf('bank', bank);
/** All fields except the country. */
export const FIELDS = [...NUMBER, ...CARD, ...BANK];

/** The names for `--columns`. `start` and `end` are the limits of a range. Without `end`, `start` is a prefix. */
export const COLUMN_NAMES: readonly string[] = [
  'start',
  'end',
  'country',
  ...[...CARD, ...NUMBER, ...BANK].map(({ column }) => column),
];

/** Maps names of `COLUMN_NAMES` to the columns of a file. */
export type FileColumns = Readonly<Record<string, string>>;

export function factIn(facts: Omit<BinRecord, 'country'>, { group, name }: Field): Fact | undefined {
  const members: Readonly<Record<string, unknown>> | undefined = group === undefined ? facts : facts[group];
  return members?.[name] as Fact | undefined;
}

/** Returns a record of the known facts, in schema order. Avoids spreads, because each lookup builds a record. */
export function recordOf(factOf: (field: Field) => Fact | undefined, country?: BinRecord['country']): BinRecord {
  const record: BinRecord = {};
  const number = addFacts(NUMBER, factOf);
  if (number) record.number = number;
  addFacts(CARD, factOf, record);
  if (country) record.country = country;
  const bank = addFacts(BANK, factOf);
  if (bank) record.bank = bank;
  return record;
}

/** Adds the known facts to `members`. Without `members`, returns a new object, or undefined if there are no facts. */
function addFacts(
  fields: readonly Field[],
  factOf: (field: Field) => Fact | undefined,
  members?: Record<string, unknown>,
): Record<string, unknown> | undefined {
  for (const field of fields) {
    const fact = factOf(field);
    if (fact === undefined) continue;
    members ??= {};
    members[field.name] = fact;
  }
  return members;
}

interface FactRow {
  label: string;
  text: string;
}

/** The facts for pages that have a label, by part of the record. */
export interface FactRows {
  number: FactRow[];
  card: FactRow[];
  bank: FactRow[];
}

export function factRows(record: BinRecord): FactRows {
  const rowsOf = (fields: readonly Field[]) =>
    fields.flatMap((field) => {
      const fact = factIn(record, field);
      const { label, format = String } = field;
      return fact === undefined || label === undefined ? [] : [{ label, text: format(fact) }];
    });
  return { number: rowsOf(NUMBER), card: rowsOf(CARD), bank: rowsOf(BANK) };
}

export function isEmptyRecord(record: BinRecord): boolean {
  return Object.keys(record).length === 0;
}
