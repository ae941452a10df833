/** Converts Zod issues into the faults of a problem document: pointer, rule and advice. Pure. */
import { z } from 'zod';

export const faultSchema = z.object({
  pointer: z.string().describe('a JSON pointer (RFC 6901) as URI fragment'),
  rule: z.string().describe('a fixed word; "invalid" if the type or form is wrong'),
  detail: z.string(),
});
export type InputFault = z.output<typeof faultSchema>;

/** Expects a schema parsed with `ADVICE`. A custom issue names its rule in `params.rule`. */
export function inputFaults(error: z.ZodError): InputFault[] {
  return error.issues.map((issue) => ({
    pointer: pointerTo(issue.path),
    rule: issue.code === 'custom' && typeof issue.params?.rule === 'string' ? issue.params.rule : 'invalid',
    detail: issue.message,
  }));
}

export function pointerTo(path: readonly PropertyKey[]): string {
  return `#${path.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')}`;
}

/** Zod's messages name types; these say what to do. A message in the schema takes precedence. */
export const ADVICE = { error: adviceFor };

function adviceFor(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return `Give ${/^[aeiou]/.test(issue.expected) ? 'an' : 'a'} ${issue.expected} here.`;
    case 'unrecognized_keys':
      return `Remove unknown names: ${namesOf(issue.keys)}.`;
    case 'invalid_value':
      return `Give one of: ${issue.values.map((value) => JSON.stringify(value)).join(', ')}.`;
    case 'too_small':
      if (isNumber(issue.origin)) return `Give ${issue.minimum} or more.`;
      return issue.origin === 'array' ? 'Give at least one.' : 'This is too short.';
    case 'too_big':
      if (isNumber(issue.origin)) return `Give ${issue.maximum} or less.`;
      return `This is too ${issue.origin === 'array' ? 'many' : 'long'}: at most ${issue.maximum}.`;
    default:
      return undefined;
  }
}

const isNumber = (origin: string) => origin === 'number' || origin === 'int';

/** Repeats only plausible names, because a secret or a card number may be in the wrong place. */
function namesOf(keys: readonly string[]): string {
  const names = keys.filter((key) => /^[A-Za-z_][\w.-]{0,39}$/.test(key) && !/\d{5}/.test(key));
  const others = keys.length - names.length;
  const texts = names.map((name) => `"${name}"`);
  return (others === 0 ? texts : [...texts, `${others} of another form`]).join(', ');
}
