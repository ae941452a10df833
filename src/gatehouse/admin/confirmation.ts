/**
 * Asks before what cannot be undone: `GET` of an action's address says what will happen, and to how many; its form posts to the
 * same address. A script shows the same page as a dialog (`views/shared/assets/dialog.js`).
 */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { formField, formFields, queryField, queryFields } from '../../shared/http/body.ts';
import type { Flash } from '../../shared/pages/flash.ts';
import { type FormView, formHandler } from '../../shared/pages/form.ts';
import { adminPath } from './admin-path.ts';
import type { AdminPageData, PageRequest } from './page.ts';
import type { AdminParts } from './parts.ts';

declare module '../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/parts/confirm': AdminPageData & {
      menuPath: string;
      question: Question;
      action: string;
      /** Where the link stood, if it said so. */
      back: string | undefined;
      cancel: string;
      ids: readonly string[];
      form: FormView<typeof confirmForm>;
    };
  }
}

/** What the page says. */
export interface Question {
  /** Such as "Revoke the relay token", before its name; or "Revoke 3 relay tokens". */
  action: string;
  /** Of the one thing that it is about. */
  name?: string | undefined;
  /** Sentences: what will happen, and whether it can be undone. */
  consequences: readonly string[];
  /** Of the things, if there are several. */
  names?: readonly string[];
  /** On the button. */
  verb: string;
  /** Text that must be typed to confirm an irreversible action. */
  typed?: string | undefined;
  /** Of what the question describes: posted with the form as `version`, so that `work` can refuse if it has changed. */
  version?: string | undefined;
  /** Warning if the action affects the administrator's own session or account. */
  own?: string | undefined;
}

interface ConfirmationParts<T> {
  menuPath: string;
  /** What the address names. @throws AppError `not_found` */
  find(req: Request): Promise<T>;
  ask(item: T, req: Request): Promise<Question> | Question;
  /** Where Cancel leads if the link named no page, below `/admin`. */
  home(item: T): string;
  /**
   * `url`: where to go afterwards, if the link named no page.
   * @throws AppError `invalid_request` or `version_conflict`: the question is asked again, with the detail above it
   */
  work(req: Request, item: T): Promise<{ url: string; flash: Flash }>;
}

const confirmForm = z.object({ typed: z.string() });
const EMPTY: FormView<typeof confirmForm> = { values: { typed: '' }, faults: [] };
/** More than a page of a list has rows. */
const MAX_IDS = 100;

export function confirmation<T>(
  { pages, publicUrl }: Pick<AdminParts, 'pages' | 'publicUrl'>,
  parts: ConfirmationParts<T>,
): { page: RequestHandler; form: RequestHandler } {
  const { menuPath, find, ask, work, home } = parts;

  /** A page of the administration; any other address that a link gives does not count. */
  const backOf = (req: Request): string | undefined =>
    adminPath(formField(req.body, 'back') ?? queryField(req, 'back'), publicUrl);

  const shown = pages.page(
    'admin/parts/confirm',
    async ({ req, form = EMPTY }: PageRequest<FormView<typeof confirmForm>>) => {
      const item = await find(req);
      const question = await ask(item, req);
      return {
        title: `${question.action}?`,
        faults: form.faults,
        menuPath,
        question,
        action: publicUrl.basePath + req.path,
        back: backOf(req),
        cancel: backOf(req) ?? `${publicUrl.basePath}/admin/${home(item)}`,
        ids: idsOf(req),
        form,
      };
    },
  );

  return {
    page: shown.handler,
    form: formHandler({
      pages,
      schema: confirmForm,
      async work(req, { typed }) {
        const item = await find(req);
        const question = await ask(item, req);
        if (question.typed !== undefined && seen(typed) !== seen(question.typed)) throw notTyped(question.typed);
        const { url, flash } = await work(req, item);
        return { url: backOf(req) ?? url, flash };
      },
      show: shown.show,
    }),
  };
}

/** The ids in the query of the page, or in its form: what was selected in a list. @throws AppError `invalid_request` */
export function idsOf(req: Request): string[] {
  const ids = [...new Set(req.method === 'POST' ? formFields(req.body, 'id') : queryFields(req, 'id'))];
  if (ids.length > MAX_IDS) throw new AppError('invalid_request', { detail: `Choose at most ${MAX_IDS} at a time.` });
  return ids;
}

/** As a page shows it, so that the administrator can type it: without invisible characters. */
const seen = (text: string) => text.replace(/\p{C}/gu, '').trim().normalize();

function notTyped(name: string): AppError {
  const detail = `Type “${name}” to confirm.`;
  return new AppError('invalid_request', { detail, faults: [{ pointer: '#/typed', rule: 'invalid', detail }] });
}
