/** Reads the response of a BIN lookup service, which is not trusted. */
import { z } from 'zod';
import { countryByAlpha2 } from '../../shared/bin/country.ts';
import { internationalPhone } from '../../shared/bin/phone.ts';
import { type BinRecord, type CountryFacts, recordOf } from '../../shared/bin/record.ts';
import { addStatedFacts } from '../../shared/bin/stated-facts.ts';
import { line } from '../../shared/bin/texts.ts';
import { isObject } from '../../shared/json.ts';

const optional = <Schema extends z.ZodType>(schema: Schema) => schema.optional().catch(undefined);

const countrySchema = z.object({
  numeric: optional(z.string().regex(/^[0-9]{3}$/)),
  alpha2: optional(
    z
      .string()
      .trim()
      .toUpperCase()
      .regex(/^[A-Z]{2}$/),
  ),
  name: optional(line(100).response),
  emoji: optional(z.string().regex(/^[\u{1f1e6}-\u{1f1ff}]{2}$/u)),
  currency: optional(z.string().regex(/^[A-Z]{3}$/)),
  latitude: optional(z.number().min(-90).max(90)),
  longitude: optional(z.number().min(-180).max(180)),
});

/**
 * Returns the record without parts that are absent, null, empty or of the wrong type, and without unknown fields.
 * Missing country facts are looked up by the alpha-2 code. If no fact is usable, the record is `{}`. Returns undefined
 * for anything but a JSON object.
 */
export function recordFromResponse(response: unknown): BinRecord | undefined {
  if (!isObject(response)) return undefined;
  const country = countryFrom(response.country);
  const record = recordOf(({ group, name, column, response: schema }) => {
    const members = group === undefined ? response : response[group];
    const fact = isObject(members) && members[name] !== undefined ? schema.safeParse(members[name]).data : undefined;
    return column === 'phone' && fact ? internationalPhone(String(fact), country?.alpha2) : fact;
  }, country);
  addStatedFacts(record, textOf(response.scheme), textOf(response.type));
  return record;
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value.trim() : '');

function countryFrom(response: unknown): CountryFacts | undefined {
  const { data = {} } = countrySchema.safeParse(response);
  const country = { ...(data.alpha2 && countryByAlpha2(data.alpha2)), ...defined(data) };
  return Object.keys(country).length > 0 ? country : undefined;
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function defined<T extends object>(members: T): Defined<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Defined<T>;
}
