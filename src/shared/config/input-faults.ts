/** Converts Zod issues into the faults of a problem document: pointer, rule and advice. Pure. */
import { z } from 'zod';

export const faultSchema = z.object({
  pointer: z.string().describe('a JSON pointer (RFC 6901) as URI fragment'),
  rule: z.string().describe('a fixed word; "invalid" if the type or form is wrong'),
  detail: z.string(),
});
export type InputFault = z.output<typeof faultSchema>;

/** Converts the issues of a schema that was parsed with `ADVICE`. A custom issue has its rule in `params.rule`. */
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

/** Messages that say what to do, in place of Zod's, which name types. A message in the schema takes precedence. */
export const ADVICE = { error: adviceFor };

function adviceFor(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return `Enter ${/^[aeiou]/.test(issue.expected) ? 'an' : 'a'} ${issue.expected}.`;
    case 'unrecognized_keys':
      return `Remove unknown names: ${namesOf(issue.keys)}.`;
    case 'invalid_value':
      return `Use one of: ${issue.values.map((value) => JSON.stringify(value)).join(', ')}.`;
    case 'too_small':
      if (isNumber(issue.origin)) return `Use ${issue.minimum} or more.`;
      return issue.origin === 'array' ? 'Add at least one item.' : 'The text is too short.';
    case 'too_big':
      if (isNumber(issue.origin)) return `Use ${issue.maximum} or less.`;
      return issue.origin === 'array'
        ? `Too many items: at most ${issue.maximum} are allowed.`
        : `The text is too long: at most ${issue.maximum} characters are allowed.`;
    default:
      return undefined;
  }
}

const isNumber = (origin: string) => origin === 'number' || origin === 'int';

/** Lists only names that look like names, because a secret or a card number may be in the wrong place. */
function namesOf(keys: readonly string[]): string {
  const names = keys.filter((key) => /^[A-Za-z_][\w.-]{0,39}$/.test(key) && !/\d{5}/.test(key));
  const otherCount = keys.length - names.length;
  const texts = names.map((name) => `"${name}"`);
  return (otherCount === 0 ? texts : [...texts, `${otherCount} of another form`]).join(', ');
}
