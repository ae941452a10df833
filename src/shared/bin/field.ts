/** What a field of the BIN record is: how it is read from a service or a file, stored in a data set, and shown on pages. */
import type { z } from 'zod';

export type Fact = string | number | boolean;

/** Where a data set keeps the fact. Data sets are stored so: a place never changes, and a new field has a new column. */
export interface Place<Value extends Fact = Fact> {
  /** Of a row of 32-bit numbers. Fields whose bits do not overlap can share a column. */
  column: number;
  /** A text has its index there, a flag two bits from `shift` on, and a number all bits from there on. 0 is an absent fact. */
  kind: Value extends string ? 'text' : Value extends boolean ? 'flag' : 'number';
  shift: number;
}

export interface FieldRules<Value extends Fact> {
  /** Reads it from the response of a service. */
  response: z.ZodType<Value>;
  /** Reads it from a cell of a file, which is not empty and has no spaces at its ends. */
  cell(text: string): Value | undefined;
  /** Its name in the `--columns` of an import. */
  column: string;
  place: Place<Value>;
  /** Without it the template of the page draws the fact. */
  label?: string;
  /** For the page, in place of the value. */
  words?(value: Value): string;
}

export interface Field extends FieldRules<Fact> {
  /** The member of the record that holds the field; undefined for the record itself. */
  group: 'number' | 'bank' | undefined;
  name: string;
}

/** A member of the record. A fact that is not known is left out. */
export function field<Value extends Fact>(schema: z.ZodType<Value>, rules: FieldRules<Value>) {
  return Object.assign(schema.exactOptional(), { rules });
}

export function fieldsOf(
  group: Field['group'],
  { shape }: { shape: Readonly<Record<string, { rules: FieldRules<Fact> }>> },
): Field[] {
  return Object.entries(shape).map(([name, { rules }]) => ({ ...rules, group, name }));
}

export const text = (column: number): Place<string> => ({ column, kind: 'text', shift: 0 });
export const flag = (column: number, shift: number): Place<boolean> => ({ column, kind: 'flag', shift });
export const wholeNumber = (column: number, shift: number): Place<number> => ({ column, kind: 'number', shift });
