/** Functions for the forms of the console: redirects without a flash, refused forms, and faults of a field. */
import { randomBytes } from 'node:crypto';
import type { Request, Response } from 'express';
import type { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import type { FormParts } from '../../shared/pages/form.ts';
import type { KeptForm } from '../../shared/pages/kept-forms.ts';

export interface ConsoleForms {
  /** The same for all forms. */
  pages: FormParts<z.ZodObject>['pages'];
  /** Returns the form that redirected to this page, and sets its status. */
  keptForm<Form>(req: Request, res: Response): Form | undefined;
}

const MAX_KEPT = 100;

/** Only administrators reach the pages, and forms are kept in memory without their secrets. */
export function createConsoleForms(): ConsoleForms {
  const kept = new Map<string, KeptForm>();
  return {
    pages: {
      redirectAfter: async (_req, res, work) => res.redirect(303, (await work()).url),
      async redirectToForm(_req, res, url, keptForm) {
        const id = randomBytes(16).toString('base64url');
        kept.set(`${url} ${id}`, keptForm);
        const [oldest] = kept.keys();
        if (oldest !== undefined && kept.size > MAX_KEPT) kept.delete(oldest);
        res.redirect(303, `${url}?form=${id}`);
      },
    },
    keptForm<Form>(req: Request, res: Response) {
      const path = (req.baseUrl + req.path).replace(/\/$/, '');
      const { status, form } = kept.get(`${path} ${String(req.query.form)}`) ?? {};
      if (status !== undefined) res.status(status);
      return form as Form | undefined;
    },
  };
}

export function faultAt(field: string, detail: string): AppError {
  return new AppError('invalid_request', { detail, faults: [{ pointer: `#/${field}`, rule: 'invalid', detail }] });
}
