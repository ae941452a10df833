/** Lists the members of a JSON schema with their types. */

export interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  additionalProperties?: JsonSchema | boolean;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
}

const alternativesOf = ({ anyOf, oneOf, allOf }: JsonSchema): JsonSchema[] | undefined => anyOf ?? oneOf ?? allOf;

/** Returns the type of a value, such as `string:date-time|null` or `=read|=write`. */
export function typeOf(schema: JsonSchema): string {
  return [...new Set(typesOf(schema))].toSorted().join('|');
}

function typesOf(schema: JsonSchema): string[] {
  const alternatives = alternativesOf(schema);
  if (alternatives) return alternatives.flatMap(typesOf);
  if (schema.$ref !== undefined) return [schema.$ref.split('/').at(-1) ?? ''];
  if (schema.const !== undefined) return [`=${schema.const}`];
  if (schema.enum) return schema.enum.map((value) => `=${value}`);
  const types = [schema.type ?? 'any'].flat();
  return types.map((type) => (type === 'string' && schema.format ? `string:${schema.format}` : type));
}

/** @param path of the value; those of its members are below it: `.name`, `[]` for items and `.*` for any name */
export function membersOf(path: string, schema: JsonSchema, isRequired = true): Record<string, string> {
  const own = { [path]: typeOf(schema) + (isRequired ? '' : '?') };
  return { ...below(path, schema), ...own };
}

function below(path: string, schema: JsonSchema): Record<string, string> {
  const alternatives = alternativesOf(schema);
  if (alternatives)
    return merged(
      alternatives.map((alternative) => below(path, alternative)),
      schema.allOf !== undefined,
    );
  const { properties = {}, required = [], items, additionalProperties } = schema;
  const named = Object.entries(properties).map(([name, member]) =>
    membersOf(`${path}.${name}`, member, required.includes(name)),
  );
  if (items) named.push(membersOf(`${path}[]`, items));
  if (typeof additionalProperties === 'object') named.push(membersOf(`${path}.*`, additionalProperties, false));
  return Object.assign({}, ...named);
}

/** The members of a union: a member that one of its objects lacks, or may lack, is optional. */
function merged(alternatives: Record<string, string>[], areAllMet: boolean): Record<string, string> {
  const objects = alternatives.filter((members) => Object.keys(members).length > 0);
  const paths = new Set(objects.flatMap((members) => Object.keys(members)));
  return Object.fromEntries(
    [...paths].map((path) => {
      // Compared where the value is that they are members of.
      const parent = path.replace(/(?:\.[^.[\]]+|\[\])$/, '');
      const parts = objects
        .filter((members) => !paths.has(parent) || parent in members)
        .map((members) => members[path]);
      const types = new Set(parts.flatMap((part) => part?.replace(/\?$/, '').split('|') ?? []));
      const isRequired = parts[areAllMet ? 'some' : 'every']((part) => part !== undefined && !part.endsWith('?'));
      return [path, [...types].toSorted().join('|') + (isRequired ? '' : '?')];
    }),
  );
}

/** The members of values that were seen: a member that is not in all of them is not required. */
export function membersSeen(path: string, values: readonly unknown[]): Record<string, string> {
  return merged(
    values.map((value) => membersOf(path, schemaSeen(value))),
    false,
  );
}

function schemaSeen(value: unknown): JsonSchema {
  if (value === null) return { type: 'null' };
  if (Array.isArray(value)) return { type: 'array', ...(value.length > 0 && { items: schemaSeen(value[0]) }) };
  if (typeof value !== 'object') return { type: typeof value };
  const properties = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, schemaSeen(member)]));
  return { type: 'object', properties, required: Object.keys(properties) };
}
