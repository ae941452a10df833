/** Bodies of changes, which must name each member: the default of an omitted one could allow more than before. */
import { z } from 'zod';

type Named<S> = { [K in keyof S]: S[K] extends z.ZodDefault<infer T> ? z.ZodNonOptional<z.ZodOptional<T>> : S[K] };

/** Returns the shape with members required that have a default in it. */
export function namedMembers<S extends z.ZodRawShape>(shape: S): Named<S> {
  return Object.fromEntries(Object.entries(shape).map(([name, schema]) => [name, required(schema)])) as Named<S>;
}

function required(schema: z.core.$ZodType): z.core.$ZodType {
  if (!(schema instanceof z.ZodDefault)) return schema;
  return z.nonoptional((schema.unwrap() as z.ZodType).optional(), MISSING).meta(schema.meta() ?? {});
}

const MISSING = 'Add this member: a change cannot leave it out.';
