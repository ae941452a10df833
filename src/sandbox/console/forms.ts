/** Functions for the forms of the console: redirects without a flash, and faults of a field. */
import type { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import type { FormParts } from '../../shared/pages/form.ts';

export const FORM_PAGES: FormParts<z.ZodObject>['pages'] = {
  redirectAfter: async (_req, res, work) => res.redirect(303, (await work()).url),
};

export function faultAt(field: string, detail: string): AppError {
  return new AppError('invalid_request', { detail, faults: [{ pointer: `#/${field}`, rule: 'invalid', detail }] });
}
