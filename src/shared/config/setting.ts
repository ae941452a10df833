/** Describes settings, and reads them from the environment or from files. */
import { z } from 'zod';
import { splitList } from './rules.ts';

export interface Setting {
  /** Parses the text of the setting; undefined if it is not set. A message follows the name, such as ` must be …`. */
  schema: z.ZodType;
  /** The comment above the setting in the example file. A setting without a comment shares the previous one. */
  about?: string;
  /** The value in the example file. Without it, the file shows the default. */
  example?: string;
  /** The setting may also be set as `NAME_FILE`, the path of a file with the value. */
  secret?: true;
  /** The setting names a file: the schema parses the text of that file. */
  file?: true;
  /** Also read in lower case, as other programs do. Then the name in lower case counts. */
  lowerCase?: true;
  /** The value for further checks if a required setting is missing or invalid. */
  standIn?: unknown;
}

export type SettingTable = Readonly<Record<string, Setting>>;

export type ValuesOf<T extends SettingTable> = { [N in keyof T]: z.output<T[N]['schema']> };

export interface ConfigSource {
  env: Readonly<Record<string, string | undefined>>;
  /** @throws Error if the file cannot be read */
  readFile: (path: string) => string;
}

/**
 * Reads every setting of the table and reports all faults at once. `values` has the default of a faulty setting, or a
 * list without its invalid entries; `faulty` has the names of those settings.
 */
export function readSettings<T extends SettingTable>(table: T, source: ConfigSource) {
  /** Sentences that name the setting and say what to do, never with a secret. */
  const faults: string[] = [];
  const faulty = new Set<string>();
  const values = Object.entries(table).map(([name, setting]) => {
    const { value, faults: faultsOfSetting } = readSetting(name, setting, source);
    if (faultsOfSetting.length > 0) faulty.add(name);
    faults.push(...faultsOfSetting);
    return [name, value];
  });
  return { values: Object.fromEntries(values) as ValuesOf<T>, faults, faulty };
}

/** The name under which a setting is set. */
function usedName(name: string, { lowerCase }: Setting, { env }: ConfigSource): string {
  return lowerCase && env[name.toLowerCase()]?.trim() ? name.toLowerCase() : name;
}

function readSetting(
  settingName: string,
  setting: Setting,
  source: ConfigSource,
): { value: unknown; faults: string[] } {
  const name = usedName(settingName, setting, source);
  const { text, fault } = textOf(name, setting, source);
  if (fault !== undefined) return { value: defaultOf(setting) ?? setting.standIn, faults: [name + fault] };
  const parsed = setting.schema.safeParse(text);
  if (parsed.success) return { value: parsed.data, faults: [] };
  const faults = parsed.error.issues.map(({ message }) => name + message);
  const invalidEntries = new Set(parsed.error.issues.map(({ path }) => path[0]));
  const value =
    text === undefined || invalidEntries.has(undefined)
      ? (defaultOf(setting) ?? setting.standIn)
      : splitList(text).filter((_entry, position) => !invalidEntries.has(position));
  return { value, faults };
}

function textOf(name: string, setting: Setting, { env, readFile }: ConfigSource): { text?: string; fault?: string } {
  const direct = env[name]?.trim() || undefined;
  if (setting.file) return direct === undefined ? {} : fileText(direct, readFile, ' names');
  const file = (setting.secret && env[`${name}_FILE`]?.trim()) || undefined;
  if (direct !== undefined && file !== undefined) return { fault: ` and ${name}_FILE are both set: keep one of them.` };
  if (file === undefined) return direct === undefined ? {} : { text: direct };
  const read = fileText(file, readFile, '_FILE names');
  return 'text' in read && read.text === '' ? {} : read;
}

/** @param names the words between the name of the setting and the fault: ` names` or `_FILE names` */
function fileText(
  path: string,
  readFile: ConfigSource['readFile'],
  names: string,
): { text: string } | { fault: string } {
  try {
    return { text: readFile(path).trim() };
  } catch {
    return { fault: `${names} a file that cannot be read: check the path and its permissions.` };
  }
}

function defaultOf({ schema }: Setting): unknown {
  return schema.safeParse(undefined).data;
}

/** Returns a schema for a setting that must be set. @param advice says how to get a value */
export function required(advice: string) {
  return z.string({ error: ` is required: ${advice}` });
}

/** Returns a schema for a whole number. @param max 999,999,999 at most */
export function integer(min: number, max = 999_999_999) {
  const error = ` must be a whole number from ${min} to ${max}.`;
  return z
    .string()
    .regex(/^\d{1,9}$/, error)
    .transform(Number)
    .pipe(z.number().min(min, error).max(max, error));
}

export function oneOf<const T extends readonly string[]>(choices: T) {
  return z.enum(choices, { error: ` must be one of: ${choices.join(', ')}.` });
}

/** A list whose entries are separated by commas or line breaks. */
export const list = z.string().transform(splitList);

/** Returns a schema that checks each entry of a list. @param faultOf returns the fault of an entry, if any */
export function listOf(faultOf: (entry: string) => string | undefined) {
  const entries = z.array(
    z.string().superRefine((entry, context) => {
      const fault = faultOf(entry);
      if (fault !== undefined) context.addIssue({ code: 'custom', message: `: ${entryName(entry)} ${fault}` });
    }),
  );
  return list.pipe(entries);
}

/** Repeats only what may be a host or a network: a URL, or what was meant for another setting, may have a secret. */
const entryName = (entry: string): string =>
  /^[\w.:*[\]-]{1,60}(?:\/\w{0,3})?$/.test(entry) ? `"${entry}"` : 'an entry';
