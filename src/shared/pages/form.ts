/**
 * Creates the handlers of forms: a schema parses the fields, faults appear next to them. Each form ends with a redirect,
 * so that a reload of the page that follows sends nothing again.
 */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import { ADVICE, type InputFault, inputFaults } from '../config/input-faults.ts';
import { AppError } from '../errors.ts';
import { formField, formFields } from '../http/body.ts';
import { containsCardNumber } from '../observability/card-numbers.ts';
import type { Flash } from './flash.ts';
import type { FieldFault } from './page-data.ts';
import type { Pages } from './pages.ts';

/** Values as a browser sends them: arrays for repeatable fields, otherwise strings, '' for a missing one. */
export type FormValues<S extends z.ZodObject> = {
  [Field in keyof z.input<S>]: z.input<S>[Field] extends readonly unknown[] ? readonly string[] : string;
};

/** The data of a form in a template. */
export interface FormView<S extends z.ZodObject> {
  values: FormValues<S>;
  /** The faults of invalid fields and of invalid lines of text areas. */
  faults: readonly FieldFault[];
  /** The names of the secret fields whose values were sent, and are not sent back. */
  dropped?: readonly string[];
  /** What the form asks before it saves. `field`: what may be changed instead. */
  question?: { text: string; field: string } | undefined;
}

/** A page with a form: its local URL, and the form in the shape in which the page reads it. */
export interface FormPage {
  url: string;
  form: unknown;
}

export interface FormParts<S extends z.ZodObject> {
  pages: Pick<Pages, 'redirectAfter' | 'redirectToForm'>;
  schema: S;
  /** Fields whose values are never sent back to the browser; the user enters them again. */
  secrets?: readonly (keyof z.input<S> & string)[];
  /**
   * The fields for faults that the rules report under other names, such as `days` for `expiresAt`, or under a path,
   * such as `endpoint-token` for `endpoints/token`, or `routePath` for `routes/#/path`, which has an input in each row.
   */
  fieldOf?: Readonly<Record<string, keyof z.input<S> & string>>;
  /** Returns the values that the form means, such as those without empty rows. */
  tidy?(values: FormValues<S>): FormValues<S>;
  /**
   * Does the work of the form.
   * @throws AppError: `invalid_request` and `version_conflict` become faults of the form, as does a `FormConflict`; a
   *   `FormQuestion` becomes its question
   */
  work(req: Request, input: z.output<S>): Promise<{ url: string; flash: Flash }>;
  /** Returns the page that shows the form with its faults. */
  page(req: Request, form: FormView<S>): FormPage;
}

/** Others have changed the same fields meanwhile. The form is shown again with these values. */
export class FormConflict extends AppError {
  readonly values: object;
  constructor(values: object, faults: readonly InputFault[]) {
    super('version_conflict', { faults });
    this.values = values;
  }
}

/**
 * Asks before something is saved. The form is shown with the question, and with its subject as the value of the field
 * `confirmed`: sent again, it is not asked about the same subject.
 */
export class FormQuestion extends AppError {
  readonly question: NonNullable<FormView<z.ZodObject>['question']>;
  readonly subject: string;
  constructor(subject: string, question: FormQuestion['question']) {
    super('invalid_request', { detail: question.text });
    this.question = question;
    this.subject = subject;
  }
}

export function formHandler<S extends z.ZodObject>(parts: FormParts<S>): RequestHandler {
  const { pages, schema, work, page } = parts;
  return async (req, res) => {
    const values = valuesIn(parts, req.body);
    const parsed = schema.safeParse(values, ADVICE);
    const refuse = (
      status: number,
      faults: FieldFault[],
      newValues: object = {},
      question: FormView<S>['question'] = undefined,
    ) => {
      const shownValues = { ...withoutCardNumbers(values, faults), ...newValues };
      const shown = { ...withoutSecrets(shownValues, parts.secrets), faults, question };
      const { url, form } = page(req, shown);
      return pages.redirectToForm(req, res, url, { status, form });
    };
    if (!parsed.success) return refuse(400, fieldFaults(parts, inputFaults(parsed.error)));
    try {
      return await pages.redirectAfter(req, res, () => work(req, parsed.data));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      if (error instanceof FormQuestion) return refuse(200, [], { confirmed: error.subject }, error.question);
      if (error instanceof FormConflict) {
        const faults = fieldFaults(parts, error.faults ?? []);
        const conflicts = faults.map(({ field, text }) => ({ field, text, isConflict: true }));
        return refuse(error.status, conflicts, error.values);
      }
      if (error.code === 'version_conflict')
        return refuse(error.status, [{ field: '', text: error.detail ?? CONFLICT }]);
      if (error.code !== 'invalid_request') throw error;
      const formFault = {
        pointer: '#',
        rule: 'invalid',
        detail: error.detail ?? 'Check what you entered and try again.',
      };
      return refuse(error.status, fieldFaults(parts, error.faults ?? [formFault]));
    }
  };
}

/** Returns the submitted values, for a page that shows the form again without validating it. */
export function submittedValues<S extends z.ZodObject>(
  parts: Pick<FormParts<S>, 'schema' | 'secrets' | 'tidy'>,
  body: unknown,
): Omit<FormView<S>, 'faults'> {
  return withoutSecrets(valuesIn(parts, body), parts.secrets);
}

/** Returns the faults of a form that a page has in each row. Its fields have the ids `FIELD-ROW`. */
export function faultsOfRow(faults: readonly FieldFault[], row: string): FieldFault[] {
  return faults.map(({ field, text }) => ({ field: field && `${field}-${row}`, text }));
}

/** A list with one input for each entry, such as `url-0`; empty entries are ignored. */
export const rows = z.array(z.string().trim()).pipe(z.array(z.string()));

/** A list in a text area, one entry per line. */
export const lines = z.string().transform((text) => entriesOf(text, '\n'));

/** Like `lines`, but also separated by spaces and commas, for entries that contain neither. */
export const words = z.string().transform((text) => entriesOf(text, /[\s,]/));

/** Splits a text into trimmed entries; empty ones are ignored. */
export function entriesOf(text: string, separator: string | RegExp): string[] {
  return text
    .split(separator)
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

/** A check box with the value `yes`. */
export const ticked = z.string().transform((value) => value === 'yes');

/** Returns a schema for a field with a whole number. @param error says which numbers to enter */
export function wholeNumber(min: number, max: number, error: string) {
  return z
    .string()
    .trim()
    .regex(/^\d{1,9}$/, error)
    .transform(Number)
    .pipe(z.int().min(min, error).max(max, error));
}

/** Maximum number of faults for one text area, which may have thousands of lines. */
const MAX_FAULTS = 10;
const CONFLICT = 'Others are changing this at the same time. Save again.';

function valuesIn<S extends z.ZodObject>(
  { schema, tidy }: Pick<FormParts<S>, 'schema' | 'tidy'>,
  body: unknown,
): FormValues<S> {
  const read = (name: string, field: z.core.$ZodType) => {
    if (field === rows) return formFields(body, name).filter((entry) => entry.trim() !== '');
    if (isList(field)) return formFields(body, name);
    return formField(body, name) ?? '';
  };
  const values = Object.fromEntries(
    Object.entries(schema.shape).map(([name, field]) => [name, read(name, field)]),
  ) as FormValues<S>;
  return tidy ? tidy(values) : values;
}

const isList = (field: unknown): boolean =>
  field instanceof z.ZodArray || (field instanceof z.ZodPipe && isList(field.in));

function withoutSecrets<S extends z.ZodObject>(
  values: FormValues<S>,
  secrets: FormParts<S>['secrets'] = [],
): Omit<FormView<S>, 'faults'> {
  const dropped = secrets.filter((name) => values[name] !== '');
  return { values: { ...values, ...Object.fromEntries(dropped.map((name) => [name, ''])) }, dropped };
}

/** Clears invalid fields that contain a card number. */
function withoutCardNumbers<Values extends object>(values: Values, faults: readonly FieldFault[]): Values {
  const invalidFields = new Set(faults.map(({ field }) => field));
  const hasCardNumber = (value: unknown) => typeof value === 'string' && containsCardNumber(value);
  const cleared = Object.entries(values).filter(([name, value]) => invalidFields.has(name) && hasCardNumber(value));
  return { ...values, ...Object.fromEntries(cleared.map(([name]) => [name, ''])) };
}

export function fieldFaults<S extends z.ZodObject>(
  { schema, fieldOf = {} }: Pick<FormParts<S>, 'schema' | 'fieldOf'>,
  faults: readonly InputFault[],
): FieldFault[] {
  const located = faults.map(({ pointer, detail }) => {
    const [, name = '', entry = '', member = ''] = pointer.split('/');
    const isEntry = /^\d+$/.test(entry);
    const column = isEntry ? fieldOf[`${name}/#/${member}`] : undefined;
    if (column) return { field: column, elementId: `${column}-${entry}`, text: detail, limit: 1 };
    const mapped = fieldOf[`${name}/${entry}`] ?? fieldOf[name] ?? name;
    const field = mapped in schema.shape ? mapped : '';
    if (isEntry && schema.shape[field] === rows)
      return { field, elementId: `${field}-${entry}`, text: detail, limit: 1 };
    const isLine = isEntry && schema.shape[name] instanceof z.ZodPipe;
    const text = isLine ? `Entry ${Number(entry) + 1}: ${detail}` : detail;
    return { field, elementId: field, text, limit: isLine || field === '' ? MAX_FAULTS : 1 };
  });
  const counts = new Map<string, number>();
  const isWithinLimit = ({ elementId, limit }: (typeof located)[number]) => {
    const count = counts.get(elementId) ?? 0;
    counts.set(elementId, count + 1);
    return count < limit;
  };
  return located.filter(isWithinLimit).map(({ elementId, text }) => ({ field: elementId, text }));
}
