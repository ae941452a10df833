/** Defines a field of the BIN record: how it is read from services and files, stored, and shown on pages. */
import type { z } from 'zod';

export type Fact = string | number | boolean;

/** Position of a fact in a stored data set. It never changes, and a new field gets a new column. */
export interface Place<Value extends Fact = Fact> {
  /** Index in the row of 32-bit numbers. Fields whose bits do not overlap can share a column. */
  column: number;
  /** A text is stored as its index, a flag in two bits from `shift`, a number in all bits from it. 0 means absent. */
  kind: Value extends string ? 'text' : Value extends boolean ? 'flag' : 'number';
  shift: number;
}

export interface FieldRules<Value extends Fact> {
  /** Reads the fact from the response of a service. */
  response: z.ZodType<Value>;
  /** Reads the fact from a cell of a file. @param text trimmed, and a fact, which `isNoFact` is not */
  cell(text: string): Value | undefined;
  /** Of a closed list of words: returns whether the text of a cell is one of them. */
  isUnderstood?(text: string): boolean;
  /** Name of the field in `--columns` of an import. */
  column: string;
  place: Place<Value>;
  /** The label on the page. Without it, the template of the page shows the fact. */
  label?: string;
  /** Formats the value for the page. */
  format?(value: Value): string;
}

export interface Field extends FieldRules<Fact> {
  /** The member of the record in which the field is; undefined for a field of the record itself. */
  group: 'number' | 'bank' | undefined;
  name: string;
}

/** Defines a member of the record, which is absent if the fact is unknown. */
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
