/** What a field of the BIN record is: how it is read from a service or a file, stored in a data set, and shown on pages. */
import type { z } from 'zod';

export type Fact = string | number | boolean;

/** Where a data set keeps the fact. Data sets are stored so: a place never changes, and a new field has a new column. */
export interface Place<Value> {
  /** Of a row of 32-bit numbers. Fields whose bits do not overlap can share a column. */
  column: number;
  /** @param numberOf gives each text its number; 0 is that of an absent fact */
  pack(value: Value, numberOf: (text: string) => number): number;
  unpack(cell: number, texts: readonly string[]): Value | undefined;
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

export function text(column: number): Place<string> {
  return { column, pack: (value, numberOf) => numberOf(value), unpack: (cell, texts) => texts[cell] || undefined };
}

/** Takes two bits of the column. */
export function flag(column: number, shift: number): Place<boolean> {
  return {
    column,
    pack: (value) => (value ? YES : NO) << shift,
    unpack(cell) {
      const bits = (cell >> shift) & 3;
      return bits === 0 ? undefined : bits === YES;
    },
  };
}

const YES = 1;
const NO = 2;

/** A number greater than 0, which takes all bits of the column from this one on. */
export function wholeNumber(column: number, shift: number): Place<number> {
  return { column, pack: (value) => value << shift, unpack: (cell) => cell >> shift || undefined };
}
