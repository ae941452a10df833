/** Handlers for forms: one schema parses the form, faults are shown beside their fields, success redirects. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { ADVICE, type InputFault, inputFaults } from '../config/input-faults.ts';
import { AppError } from '../errors.ts';
import { formField, formFields } from '../http/body.ts';
import { containsCardNumber } from '../observability/card-numbers.ts';
import type { Flash } from './flash.ts';
import type { FieldFault } from './page-data.ts';
import type { Pages } from './pages.ts';

/** The values as a browser sends them: an array for a repeatable field, otherwise a string, '' if it is missing. */
export type FormValues<S extends z.ZodObject> = {
  [Field in keyof z.input<S>]: z.input<S>[Field] extends readonly unknown[] ? readonly string[] : string;
};

/** What a template draws a form from. */
export interface FormView<S extends z.ZodObject> {
  values: FormValues<S>;
  /** One for each faulty field, and for each faulty line of a text area, in the order of the schema. */
  faults: readonly FieldFault[];
  /** Secrets that were typed and are not sent back. */
  dropped?: readonly string[];
}

export interface FormParts<S extends z.ZodObject> {
  pages: Pick<Pages, 'redirectAfter'>;
  schema: S;
  /** Fields whose values are never sent back to the browser; the user enters them again. */
  secrets?: readonly (keyof z.input<S> & string)[];
  /**
   * The field for faults that the rules find under a name of their own, such as `days` for `expiresAt`, or below one,
   * such as `endpoint-token` for `endpoints/token`.
   */
  fieldOf?: Readonly<Record<string, keyof z.input<S> & string>>;
  /** @throws AppError `invalid_request` or `version_conflict`, which are shown as faults of the form */
  work(req: Request, input: z.output<S>): Promise<{ url: string; flash: Flash }>;
  /** Sends the page that holds the form; the status is set already. */
  show(req: Request, res: Response, form: FormView<S>): Promise<void>;
}

export function formHandler<S extends z.ZodObject>(parts: FormParts<S>): RequestHandler {
  const { pages, schema, work, show } = parts;
  return async (req, res) => {
    const values = valuesIn(schema, req.body);
    const parsed = schema.safeParse(values, ADVICE);
    const refuse = (status: number, faults: FieldFault[]) =>
      show(req, res.status(status), { ...withoutSecrets(withoutCardNumbers(values, faults), parts.secrets), faults });
    if (!parsed.success) return refuse(400, fieldFaults(parts, inputFaults(parsed.error)));
    try {
      return await pages.redirectAfter(req, res, () => work(req, parsed.data));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      if (error.code === 'version_conflict') {
        // The page gives the present version in place of the one that was sent.
        if ('version' in values) Object.assign(values, { version: '' });
        const text = 'version' in values ? CONFLICT : (error.detail ?? CONFLICT);
        return refuse(error.status, [{ field: '', text }]);
      }
      if (error.code !== 'invalid_request') throw error;
      const whole = { pointer: '#', rule: 'invalid', detail: error.detail ?? 'Check what you entered and try again.' };
      return refuse(error.status, fieldFaults(parts, error.faults ?? [whole]));
    }
  };
}

/** What was typed into a form that is shown again without being judged. */
export function typedIn<S extends z.ZodObject>(
  { schema, secrets }: Pick<FormParts<S>, 'schema' | 'secrets'>,
  body: unknown,
): Omit<FormView<S>, 'faults'> {
  return withoutSecrets(valuesIn(schema, body), secrets);
}

/** The faults of a form that a page shows once for each row: a field has the id `FIELD-ROW` there. */
export function faultsOfRow(faults: readonly FieldFault[], row: string): FieldFault[] {
  return faults.map(({ field, text }) => ({ field: field && `${field}-${row}`, text }));
}

/** A list with an input of its own for each entry, such as `url-0`; those that are left empty do not count. */
export const rows = z.array(z.string().trim()).pipe(z.array(z.string()));

/** A list from a text area, one entry a line. */
export const lines = z.string().transform((text) => entriesOf(text, '\n'));

/** As `lines`, also separated by spaces and commas, for entries that hold neither. */
export const words = z.string().transform((text) => entriesOf(text, /[\s,]/));

/** Without the white space around them; those that are empty do not count. */
export function entriesOf(text: string, separator: string | RegExp): string[] {
  return text
    .split(separator)
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

/** A check box with the value `yes`. */
export const ticked = z.string().transform((value) => value === 'yes');

/** A whole number within limits. @param error says which numbers to enter */
export function wholeNumber(min: number, max: number, error: string) {
  return z
    .string()
    .trim()
    .regex(/^\d{1,9}$/, error)
    .transform(Number)
    .pipe(z.int().min(min, error).max(max, error));
}

/** The version of the record that the form shows; up to 16 digits in Redis. */
export const recordVersion = z
  .string()
  .regex(/^\d{1,16}$/, 'Open the page again.')
  .transform(Number);

/** Of one text area, which may hold thousands of lines. */
const MAX_FAULTS = 10;
const CONFLICT = 'Someone else changed this while you were editing. Save again to replace their changes.';

function valuesIn<S extends z.ZodObject>(schema: S, body: unknown): FormValues<S> {
  const read = (name: string, field: z.core.$ZodType) => {
    if (field instanceof z.ZodArray) return formFields(body, name);
    if (hasRows(field)) return formFields(body, name).filter((entry) => entry.trim() !== '');
    return formField(body, name) ?? '';
  };
  return Object.fromEntries(
    Object.entries(schema.shape).map(([name, field]) => [name, read(name, field)]),
  ) as FormValues<S>;
}

const hasRows = (field: unknown) => field instanceof z.ZodPipe && field.in instanceof z.ZodArray;

function withoutSecrets<S extends z.ZodObject>(
  values: FormValues<S>,
  secrets: FormParts<S>['secrets'] = [],
): Omit<FormView<S>, 'faults'> {
  const dropped = secrets.filter((name) => values[name] !== '');
  return { values: { ...values, ...Object.fromEntries(dropped.map((name) => [name, ''])) }, dropped };
}

/** A field that was refused is left blank if it holds a card number. */
function withoutCardNumbers<Values extends object>(values: Values, faults: readonly FieldFault[]): Values {
  const refused = new Set(faults.map(({ field }) => field));
  const hasOne = (value: unknown) => typeof value === 'string' && containsCardNumber(value);
  const blank = Object.entries(values).filter(([name, value]) => refused.has(name) && hasOne(value));
  return { ...values, ...Object.fromEntries(blank.map(([name]) => [name, ''])) };
}

export function fieldFaults<S extends z.ZodObject>(
  { schema, fieldOf = {} }: Pick<FormParts<S>, 'schema' | 'fieldOf'>,
  faults: readonly InputFault[],
): FieldFault[] {
  const found = faults.map(({ pointer, rule, detail }) => {
    const [, name = '', entry = ''] = pointer.split('/');
    const mapped = fieldOf[`${name}/${entry}`] ?? fieldOf[name] ?? name;
    const field = mapped in schema.shape ? mapped : '';
    const isEntry = /^\d+$/.test(entry);
    if (isEntry && hasRows(schema.shape[field]))
      return { field, place: `${field}-${entry}`, text: detail, rule, most: 1 };
    const isLine = isEntry && schema.shape[name] instanceof z.ZodPipe;
    const text = isLine ? `Entry ${Number(entry) + 1}: ${detail}` : detail;
    return { field, place: field, text, rule: undefined, most: isLine || field === '' ? MAX_FAULTS : 1 };
  });
  const counts = new Map<string, number>();
  const isShown = ({ place, most }: (typeof found)[number]) => {
    const before = counts.get(place) ?? 0;
    counts.set(place, before + 1);
    return before < most;
  };
  const order = ['', ...Object.keys(schema.shape)];
  return found
    .filter(isShown)
    .toSorted((one, other) => order.indexOf(one.field) - order.indexOf(other.field))
    .map(({ place, text, rule }) => ({ field: place, text, ...(rule === undefined ? {} : { rule }) }));
}
