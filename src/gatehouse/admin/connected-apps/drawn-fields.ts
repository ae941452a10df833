/** Form fields generated from `connectedAppSchema`: every field with a title, without further code. */
import { z } from 'zod';
import { isObject } from '../../../shared/json.ts';
import { lines, ticked } from '../../../shared/pages/form.ts';
import { connectedAppSchema } from '../../../shared/provider/connected-app.ts';

export interface DrawnField {
  /** The member of a registration, or `GROUP-MEMBER`. */
  name: string;
  label: string;
  help: string;
  kind: keyof typeof KINDS;
  isUrl: boolean;
  /** The values of a `choice`, with their labels. */
  options: readonly (readonly [string, string])[];
  /** The value of a registration without this field. */
  initial: unknown;
}

const text = z.string().trim();
const plainText = {
  input: text.transform((entered) => entered || undefined),
  toForm: (value: unknown) => String(value ?? ''),
};

/** The input schema of each kind of field, and the conversion of a value to the form. */
const KINDS = {
  text: plainText,
  choice: plainText,
  words: {
    input: text.transform((entered) =>
      entered === '' || entered === 'off' ? entered || undefined : entered.split(/\s+/),
    ),
    toForm: (value: unknown) => [value ?? ''].flat().join(' '),
  },
  number: { ...plainText, input: text.transform(numberIn) },
  lines: { input: lines.transform(listIn), toForm: (value: unknown) => (Array.isArray(value) ? value.join('\n') : '') },
  pairs: {
    input: lines
      .refine((entries) => entries.every((line) => line.includes('=')), 'Write each line as name=value.')
      .refine((entries) => new Set(entries.map(nameIn)).size === entries.length, 'Enter each name once.')
      .transform(pairsIn),
    toForm: linesOf,
  },
  tick: { input: ticked, toForm: (value: unknown) => (value ? 'yes' : '') },
} as const;

const KIND_HELP: Readonly<Record<string, string>> = { lines: 'One per line.', pairs: 'One per line, as name=value.' };

const CHOICE_WORDS: Readonly<Record<string, string>> = {
  rotating: 'each can be used once',
  reusable: 'each can be used several times',
  auto: 'if the provider requires it',
  required: 'always',
  off: 'never',
};

/** The fields, in the order of the schema and of the page. */
export const DRAWN_FIELDS: readonly DrawnField[] = fieldsOf(connectedAppSchema);

/** The input schemas of the fields. Their type is `object`, because a record would allow any field name in the form. */
export const drawnInputs: object = Object.fromEntries(DRAWN_FIELDS.map(({ name, kind }) => [name, KINDS[kind].input]));

/** Returns the values of an app for the form. */
export function drawnValues(app: object): object {
  return Object.fromEntries(DRAWN_FIELDS.map((field) => [field.name, shownValue(field, app)]));
}

/** Returns the labels and values of the fields that differ from their initial values. */
export function drawnSettings(app: object): [label: string, value: string][] {
  return DRAWN_FIELDS.flatMap((field) => {
    const value = shownValue(field, app);
    if (value === KINDS[field.kind].toForm(field.initial)) return [];
    const words = field.kind === 'tick' ? (value ? 'Yes' : 'No') : value.replaceAll('\n', ', ');
    return [[field.label, words]];
  });
}

function shownValue({ name, kind, initial }: DrawnField, app: object): string {
  const member = name.split('-').reduce<unknown>((value, key) => (isObject(value) ? value[key] : undefined), app);
  return KINDS[kind].toForm(member ?? initial);
}

/** Returns the entered values, by the names of the fields. */
export function drawnEntries(form: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(DRAWN_FIELDS.map(({ name }) => [name, form[name]]));
}

/** Returns a registration from its members, of which those named `GROUP-MEMBER` are in groups; without empty groups. */
export function withGroups(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const registration: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(members)) {
    const [member = '', inner] = name.split('-');
    if (value === undefined) continue;
    const group = registration[member];
    registration[member] = inner === undefined ? value : { ...(isObject(group) && group), [inner]: value };
  }
  return registration;
}

function fieldsOf(schema: z.ZodObject, group = ''): DrawnField[] {
  return Object.entries(schema.shape).flatMap(([member, field]) => {
    const { title, description = '' } = z.globalRegistry.get(field) ?? {};
    const type = unwrapped(field);
    if (type instanceof z.ZodObject) return fieldsOf(type, `${member}-`);
    if (title === undefined) return [];
    const kind = kindOf(type);
    const initial: unknown = field.safeParse(undefined).data;
    return {
      name: group + member,
      label: title,
      kind,
      initial,
      help: `${description} ${KIND_HELP[kind] ?? ''}`.trim(),
      isUrl: z.globalRegistry.get(type)?.format === 'uri',
      options: type instanceof z.ZodEnum ? [...emptyOption(field, initial), ...optionsOf(type)] : [],
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
  if (type instanceof z.ZodUnion) return 'words';
  return type instanceof z.ZodArray ? 'lines' : 'text';
}

function optionsOf({ options }: z.ZodEnum): [string, string][] {
  return options.map((value) => [String(value), CHOICE_WORDS[value] ?? String(value)]);
}

/** Returns the option without a value, for a field without an initial value. */
function emptyOption(field: z.core.$ZodType, initial: unknown): [string, string][] {
  if (initial !== undefined) return [];
  return [['', field instanceof z.ZodOptional ? 'detected automatically' : 'none']];
}

function listIn(entries: string[]): string[] | undefined {
  return entries.length === 0 ? undefined : entries;
}

/** Returns the number, or other text unchanged, which the schema refuses. */
function numberIn(entered: string): unknown {
  return /^\d+$/.test(entered) ? Number(entered) : entered || undefined;
}

function nameIn(line: string): string {
  return line.replace(/=.*/, '').trim();
}

function pairsIn(entries: string[]): Record<string, string> | undefined {
  const pairs = entries.map((line) => {
    const [, ...value] = line.split('=');
    return [nameIn(line), value.join('=').trim()];
  });
  return pairs.length === 0 ? undefined : Object.fromEntries(pairs);
}

function linesOf(value: unknown): string {
  return Object.entries(isObject(value) ? value : {})
    .map(([name, inner]) => `${name}=${inner}`)
    .join('\n');
}
