/** Compares two surfaces: what worked with the first, and no longer works with the second. */
import type { Surface } from './surface.ts';

type Rule = (before: Type, after: Type) => string | undefined;

interface Type {
  /** Without the values of enums. */
  types: string[];
  values: string[];
  isRequired: boolean;
  /** Of a setting. */
  default: string;
}

function parse(text: string): Type {
  const [, types = '', optional] = /^([^,?]*)(\?)?/.exec(text) ?? [];
  const all = types.split('|');
  return {
    types: all.filter((type) => !type.startsWith('=')),
    values: all.filter((type) => type.startsWith('=')),
    isRequired: !optional,
    default: text.split(', default ')[1] ?? '',
  };
}

const lacking = (before: string[], after: string[]) => before.filter((type) => !after.includes(type));

/** What callers and operators send: more may be accepted, and nothing more may be required. */
const INPUT: Rule = (before, after) => {
  const refused = lacking([...before.types, ...before.values], [...after.types, ...after.values]);
  if (refused.length > 0 && !after.types.includes('any')) return `no longer accepts ${refused.join(', ')}`;
  if (after.isRequired && !before.isRequired) return 'is now required';
  return before.default === after.default ? undefined : `has another default: ${after.default}, not ${before.default}`;
};

/** What callers receive: no other type, and no member less. Values may be added, since callers must expect new ones. */
const OUTPUT: Rule = (before, after) => {
  const added = lacking(after.types, before.types);
  // An enum becomes a text: every value is still one.
  const removed = after.types.includes('string') ? [] : lacking(before.values, after.values);
  const other = [...added, ...lacking(before.types, after.types), ...removed];
  if (other.length > 0) return `has another type: ${other.join(', ')}`;
  return before.isRequired && !after.isRequired ? 'may now be absent' : undefined;
};

const EXACT: Rule = (before, after) =>
  JSON.stringify(before) === JSON.stringify(after)
    ? undefined
    : `was ${before.types}${before.values}, is ${after.types}${after.values}`;

const RULES: Record<string, Rule> = {
  settings: INPUT,
  commands: INPUT,
  files: INPUT,
  requests: INPUT,
  responses: OUTPUT,
  webhooks: OUTPUT,
};

/** Returns a sentence for each change that breaks something. Empty if `after` only adds. */
export function breaksOf(before: Surface, after: Surface): string[] {
  return Object.entries(before).flatMap(([kind, names]) =>
    Object.entries(names).flatMap(([name, members]) => {
      const present = after[kind]?.[name];
      if (!present) return [`${kind}: ${name} is gone`];
      const rule = RULES[kind] ?? EXACT;
      const changed = Object.entries(members).flatMap(([member, type]) => {
        const now = present[member];
        const fault = now === undefined ? 'is gone' : rule(parse(type), parse(now));
        return fault === undefined ? [] : [`${kind}: ${name}: ${member} ${fault}`];
      });
      return [...changed, ...(rule === INPUT ? newDemands(kind, name, members, present) : [])];
    }),
  );
}

/** The new members that are required, unless they lie in a new member that is not. */
function newDemands(
  kind: string,
  name: string,
  before: Record<string, string>,
  after: Record<string, string>,
): string[] {
  const isNew = (member: string) => before[member] === undefined;
  const parentOf = (member: string) => member.replace(/(?:\.[^.[\]]+|\[\])$/, '');
  return Object.entries(after)
    .filter(([member, type]) => isNew(member) && parse(type).isRequired)
    .filter(([member]) => parentOf(member) === member || !isNew(parentOf(member)))
    .map(([member]) => `${kind}: ${name}: ${member} is new and required`);
}
