/** Owns how findings about what somebody sent are told: where it is, which rule it breaks, and what to do. Pure. */
import type { z } from 'zod';

/** `pointer`: a JSON pointer (RFC 6901, as URI fragment) to the value. */
export interface InputFault {
  pointer: string;
  /** A fixed word of whoever judged; `invalid` where the shape itself is wrong. */
  rule: string;
  detail: string;
}

/** Turns a schema's findings into faults that a person can act on; a custom issue names its rule in `params.rule`. */
export function inputFaults(error: z.ZodError): InputFault[] {
  return error.issues.map((issue) => ({
    pointer: pointerTo(issue.path),
    rule: issue.code === 'custom' && typeof issue.params?.rule === 'string' ? issue.params.rule : 'invalid',
    detail: adviceFor(issue),
  }));
}

export function pointerTo(path: readonly PropertyKey[]): string {
  return `#${path.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')}`;
}

/** The schema's own messages speak of types; these say what to do. */
function adviceFor(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `Give ${/^[aeiou]/.test(issue.expected) ? 'an' : 'a'} ${issue.expected} here.`;
    case 'unrecognized_keys':
      return `Leave out what is not known here: ${issue.keys.map((key) => `"${clip(key)}"`).join(', ')}.`;
    case 'invalid_value':
      return `Give one of: ${issue.values.map((value) => JSON.stringify(value)).join(', ')}.`;
    case 'too_small':
      if (isNumber(issue.origin)) return `Give ${issue.minimum} or more.`;
      return issue.origin === 'array' ? 'Give at least one.' : 'This is too short.';
    case 'too_big':
      if (isNumber(issue.origin)) return `Give ${issue.maximum} or less.`;
      return `This is too ${issue.origin === 'array' ? 'many' : 'long'}: at most ${issue.maximum}.`;
    default:
      return issue.message;
  }
}

const isNumber = (origin: string) => origin === 'number' || origin === 'int';
const clip = (key: string) => (key.length > 60 ? `${key.slice(0, 60)}…` : key);
