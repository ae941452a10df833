/**
 * Confirmation pages. `GET` of an action's address says what will happen, and to how many items; its form posts to the
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
      /** The page to return to, if the link named one. */
      back: string | undefined;
      cancel: string;
      ids: readonly string[];
      form: FormView<typeof confirmForm>;
    };
  }
}

export interface Question {
  /** The heading before the name: "Revoke the relay token", or "Revoke 3 relay tokens". */
  action: string;
  /** The item, if there is only one. */
  name?: string | undefined;
  /** Sentences that say what will happen, and whether it can be undone. */
  consequences: readonly string[];
  /** The items, if there are several. */
  names?: readonly string[];
  /** The label of the button. */
  verb: string;
  /** The text that the administrator types to confirm an irreversible action. */
  typedText?: string | undefined;
  /** The version of the item. The form posts it, and `work` can refuse a changed item. */
  version?: string | undefined;
  /** Shown if the action affects the administrator's own session or account. */
  warning?: string | undefined;
}

interface ConfirmationParts<T> {
  menuPath: string;
  /** Finds the item that the address names. @throws AppError `not_found` */
  find(req: Request): Promise<T>;
  questionFor(item: T, req: Request): Promise<Question> | Question;
  /** Returns the page below `/admin` that Cancel leads to if the link named no page to return to. */
  home(item: T): string;
  /**
   * Does the action. `url` is the next page if the link named no page to return to.
   * @throws AppError `invalid_request` or `version_conflict`: the page is shown again, with the detail above the
   *   question
   */
  work(req: Request, item: T): Promise<{ url: string; flash: Flash }>;
}

const confirmForm = z.object({ typed: z.string() });
const EMPTY: FormView<typeof confirmForm> = { values: { typed: '' }, faults: [] };
/** Exceeds the number of rows on a page of a list. */
const MAX_IDS = 100;

export function confirmation<T>(
  { pages, publicUrl }: Pick<AdminParts, 'pages' | 'publicUrl'>,
  parts: ConfirmationParts<T>,
): { page: RequestHandler; form: RequestHandler } {
  const { menuPath, find, questionFor, work, home } = parts;

  /** Returns the page that the link or the form named, unless it is outside the administration. */
  const backOf = (req: Request): string | undefined =>
    adminPath(formField(req.body, 'back') ?? queryField(req, 'back'), publicUrl);

  const confirmationPage = pages.page(
    'admin/parts/confirm',
    async ({ req, form = EMPTY }: PageRequest<FormView<typeof confirmForm>>) => {
      const item = await find(req);
      const question = await questionFor(item, req);
      return {
        title: `${[question.action, question.name].filter(Boolean).join(' ')}?`,
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

  /** Returns the URL of the page, with what its link named. */
  const urlOf = (req: Request): string => {
    const back = backOf(req);
    const query = new URLSearchParams(idsOf(req).map((id) => ['id', id]));
    if (back !== undefined) query.set('back', back);
    return `${publicUrl.basePath + req.path}?${query}`;
  };

  return {
    page: confirmationPage.handler,
    form: formHandler({
      pages,
      schema: confirmForm,
      async work(req, { typed }) {
        const item = await find(req);
        const question = await questionFor(item, req);
        if (question.typedText !== undefined && visibleText(typed) !== visibleText(question.typedText))
          throw notTyped(question.typedText);
        const { url, flash } = await work(req, item);
        return { url: backOf(req) ?? url, flash };
      },
      page: (req, form) => confirmationPage.at(urlOf(req), form),
    }),
  };
}

/** Returns the ids selected in a list, from the query or the form of the page. @throws AppError `invalid_request` */
export function idsOf(req: Request): string[] {
  const ids = [...new Set(req.method === 'POST' ? formFields(req.body, 'id') : queryFields(req, 'id'))];
  if (ids.length > MAX_IDS) throw new AppError('invalid_request', { detail: `Choose at most ${MAX_IDS} at a time.` });
  return ids;
}

/** Removes invisible characters, which an administrator cannot type. */
const visibleText = (text: string) => text.replace(/\p{C}/gu, '').trim().normalize();

function notTyped(name: string): AppError {
  const detail = `Type “${name}” to confirm.`;
  return new AppError('invalid_request', { detail, faults: [{ pointer: '#/typed', rule: 'invalid', detail }] });
}
