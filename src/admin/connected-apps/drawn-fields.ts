/** Fields of the form of an app that the schema describes: those with a title need no more than their line there. */
import { z } from 'zod';
import { connectedAppSchema } from '../../connected-apps/connected-app.ts';
import { lines, ticked } from '../../pages/form.ts';

export interface DrawnField {
  /** In the form. */
  name: string;
  /** In a registration. */
  path: readonly [string, string?];
  label: string;
  help: string | undefined;
  kind: keyof typeof KINDS;
  isUrl: boolean;
  /** Values with their words, of a `choice`. */
  options: readonly (readonly [string, string])[];
  /** The value where a registration has none. */
  initial: unknown;
}

const text = z.string().trim();

/** How the form takes each kind of field, and how its value stands in a registration and in the form. */
const KINDS = {
  text: {
    input: text,
    toValue: (typed: string) => typed || undefined,
    toForm: (value: unknown) => String(value ?? ''),
  },
  choice: {
    input: text,
    toValue: (typed: string) => typed || undefined,
    toForm: (value: unknown) => String(value ?? ''),
  },
  number: { input: text, toValue: numberIn, toForm: (value: unknown) => String(value ?? '') },
  lines: { input: lines, toValue: (typed: string[]) => typed, toForm: (value: string[] = []) => value.join('\n') },
  pairs: { input: lines, toValue: pairsIn, toForm: linesOf },
  tick: { input: ticked, toValue: (typed: boolean) => typed, toForm: (value: boolean) => (value ? 'yes' : '') },
} as const;

const LINES_HELP: { [Kind in DrawnField['kind']]?: string } = {
  lines: 'One a line.',
  pairs: 'One a line, as name=value.',
};

const CHOICE_WORDS: Readonly<Record<string, string>> = {
  rotating: 'each is good for one use',
  reusable: 'one can be used again and again',
  auto: 'where it is demanded',
  required: 'always',
  off: 'never',
};

/** In the order of the schema, which is that of the page. */
export const DRAWN_FIELDS: readonly DrawnField[] = fieldsOf(connectedAppSchema);

export const drawnInputs = Object.fromEntries(DRAWN_FIELDS.map(({ name, kind }) => [name, KINDS[kind].input]));

/** What the form shows of an app. */
export function drawnValues(app: object): Record<string, string> {
  const valueAt = ([member, inner]: DrawnField['path']) => {
    const value = (app as Record<string, unknown>)[member];
    return inner === undefined ? value : (value as Record<string, unknown> | undefined)?.[inner];
  };
  return Object.fromEntries(
    DRAWN_FIELDS.map(({ name, kind, path, initial }) => [
      name,
      KINDS[kind].toForm((valueAt(path) ?? initial) as never),
    ]),
  );
}

/** The members of a registration that the form gives; groups without a member are left out. */
export function drawnMembers(form: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const registration: Record<string, unknown> = {};
  for (const { name, kind, path } of DRAWN_FIELDS) {
    const value = KINDS[kind].toValue(form[name] as never);
    if (value === undefined) continue;
    const [member, inner] = path;
    registration[member] =
      inner === undefined ? value : { ...(registration[member] as object | undefined), [inner]: value };
  }
  return registration;
}

function fieldsOf(schema: z.ZodObject, group?: string): DrawnField[] {
  return Object.entries(schema.shape).flatMap(([member, field]) => {
    const { title, description } = z.globalRegistry.get(field) ?? {};
    const type = unwrapped(field);
    if (type instanceof z.ZodObject && group === undefined) return fieldsOf(type, member);
    if (title === undefined) return [];
    const initial: unknown = field.safeParse(undefined).data;
    return {
      name: group === undefined ? member : `${group}-${member}`,
      path: group === undefined ? ([member] as const) : ([group, member] as const),
      label: title,
      help: [description, LINES_HELP[kindOf(type)]].filter(Boolean).join(' ') || undefined,
      kind: kindOf(type),
      isUrl: z.globalRegistry.get(type)?.format === 'uri',
      options: type instanceof z.ZodEnum ? optionsOf(type, initial) : [],
      initial,
    };
  });
}

function unwrapped(field: z.core.$ZodType): z.core.$ZodType {
  return field instanceof z.ZodOptional || field instanceof z.ZodDefault ? unwrapped(field.unwrap()) : field;
}

function kindOf(type: z.core.$ZodType): DrawnField['kind'] {
  if (type instanceof z.ZodEnum) return 'choice';
  if (type instanceof z.ZodNumber) return 'number';
  if (type instanceof z.ZodBoolean) return 'tick';
  if (type instanceof z.ZodRecord) return 'pairs';
  return type instanceof z.ZodArray ? 'lines' : 'text';
}

function optionsOf({ options }: z.ZodEnum, initial: unknown): [string, string][] {
  const named = options.map((value): [string, string] => [String(value), CHOICE_WORDS[value] ?? String(value)]);
  return initial === undefined ? [['', 'found out by itself'], ...named] : named;
}

/** What is not a number stays as it was typed, and is refused as such. */
function numberIn(typed: string): number | string | undefined {
  if (typed === '') return undefined;
  return /^\d+$/.test(typed) ? Number(typed) : typed;
}

function pairsIn(typed: string[]): Record<string, string> | undefined {
  const pairs = typed.map((line) => {
    const [name = '', ...value] = line.split('=');
    return [name.trim(), value.join('=').trim()];
  });
  return pairs.length === 0 ? undefined : Object.fromEntries(pairs);
}

function linesOf(value: Record<string, string> = {}): string {
  return Object.entries(value)
    .map(([name, inner]) => `${name}=${inner}`)
    .join('\n');
}
