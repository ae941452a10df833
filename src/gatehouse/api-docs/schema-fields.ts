/** A JSON Schema as a flat list of its fields, for the API page: path, type, values, and required or not. Pure. */

/** The parts of JSON Schema that zod writes. */
export interface JsonSchema {
  type?: string | string[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
  enum?: unknown[];
  const?: unknown;
  format?: string;
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
}

export interface SchemaField {
  /** Path of the enclosing objects, such as `items[].actor.`. */
  parent: string;
  name: string;
  type: string;
  required: boolean;
  /** The allowed values, as JSON. */
  values: string[];
  /** Default and limits, in words. */
  notes: string[];
  description: string | undefined;
}

/** Returns false for the limits of safe integers, which zod writes for any whole number. */
const isLimit = (value: number | undefined): value is number =>
  value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;

/** Returns every field, including those of nested objects, in the order of the schema. */
export function fieldsOf(schema: JsonSchema, parent = ''): SchemaField[] {
  const fields = objectsIn(schema).flatMap(({ properties = {}, required = [], additionalProperties }) => [
    ...Object.entries(properties).flatMap(([name, property]) => [
      fieldOf(name, property, { parent, required: required.includes(name) }),
      ...fieldsOf(property, `${parent}${name}${suffixOf(property)}.`),
    ]),
    ...(typeof additionalProperties === 'object' ? fieldsOf(additionalProperties, `${parent}*.`) : []),
  ]);
  // Variants of an object share fields.
  return [...new Map(fields.map((field) => [`${field.parent}${field.name} ${field.type}`, field])).values()];
}

/** Returns the type in words, such as "array of object". */
export function typeOf(schema: JsonSchema): string {
  const { type, items, additionalProperties, format } = schema;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const variants = variantsOf(schema);
  if (variants.length > 0) return [...new Set(variants.map(typeOf))].join(' or ');
  if (schema.enum)
    return type === undefined ? [...new Set(schema.enum.map((value) => typeof value))].join(' or ') : String(type);
  if (Array.isArray(type)) return type.join(' or ');
  if (type === 'array') return `array of ${items ? typeOf(items) : 'anything'}`;
  if (type === 'object' && typeof additionalProperties === 'object') return `map of ${typeOf(additionalProperties)}`;
  return format === undefined ? (type ?? 'anything') : `${type} (${format})`;
}

function fieldOf(
  name: string,
  schema: JsonSchema,
  { parent, required }: Pick<SchemaField, 'parent' | 'required'>,
): SchemaField {
  return {
    parent,
    name,
    required,
    type: typeOf(schema),
    description: schema.description,
    values: valuesOf(schema).map((value) => JSON.stringify(value)),
    notes: notesOf(schema),
  };
}

const variantsOf = ({ anyOf, oneOf, allOf }: JsonSchema) => anyOf ?? oneOf ?? allOf ?? [];

/** Returns the object schemas that a value may match or contain. */
function objectsIn(schema: JsonSchema): JsonSchema[] {
  if (schema.items) return objectsIn(schema.items);
  const variants = variantsOf(schema);
  return variants.length > 0 ? variants.flatMap(objectsIn) : [schema];
}

/** Returns the suffix of the name of a field with an array: `[]` for each level. */
function suffixOf(schema: JsonSchema): string {
  if (schema.items) return `[]${suffixOf(schema.items)}`;
  return variantsOf(schema).map(suffixOf).find(Boolean) ?? '';
}

function valuesOf(schema: JsonSchema): unknown[] {
  if (schema.enum) return schema.enum;
  if (schema.items) return valuesOf(schema.items);
  return variantsOf(schema).flatMap(valuesOf);
}

function notesOf(schema: JsonSchema): string[] {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems } = schema;
  return [
    ...(schema.default === undefined ? [] : [`default ${JSON.stringify(schema.default)}`]),
    ...rangeOf(minimum, maximum, ''),
    ...rangeOf(minLength, maxLength, ' characters'),
    ...rangeOf(minItems, maxItems, ' items'),
  ];
}

function rangeOf(min: number | undefined, max: number | undefined, unit: string): string[] {
  if (isLimit(min) && isLimit(max)) return [`${min} to ${max}${unit}`];
  if (isLimit(max)) return [`at most ${max}${unit}`];
  return isLimit(min) && min !== 0 ? [`at least ${min}${min === 1 ? unit.replace(/s$/, '') : unit}`] : [];
}
