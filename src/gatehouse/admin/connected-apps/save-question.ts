/** The question before a change of an app that affects its users. It is asked on a page of its own, and nothing is saved yet. */
import type { Request } from 'express';
import { AppError } from '../../../shared/errors.ts';
import type { FormPage, FormView } from '../../../shared/pages/form.ts';
import type { AdminPageData, AdminPages, PageRequest } from '../page.ts';
import { type changedAppForm, scopesOf } from './form.ts';
import type { ConnectedAppReader } from './reader.ts';
import type { AppView } from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/connected-apps/save-question': AdminPageData & {
      question: SaveQuestion;
      form: FormView<typeof changedAppForm>;
      action: string;
      /** The form, with everything that was entered but secrets. */
      cancel: string;
    };
  }
}

interface SaveQuestion {
  heading: string;
  consequences: readonly string[];
  verb: string;
  /** What is asked about: the form that the question sends has it as `confirmed`. */
  subject: string;
}

type Changes = Pick<AppView, 'scopes' | 'callbackUrls'>;

export function saveQuestions(parts: {
  reader: Pick<ConnectedAppReader, 'read' | 'countMissingScopes'>;
  pages: AdminPages;
  urlOf: (id: string) => string;
}) {
  const { reader, pages, urlOf } = parts;

  const questionAbout = async (app: AppView, { scopes, callbackUrls }: Changes): Promise<SaveQuestion | undefined> => {
    const missing = await reader.countMissingScopes(app, scopes);
    const questions = [
      ...(missing.connections > 0 ? [aboutScopes(missing)] : []),
      ...(app.unusable === null && !callbackUrls.includes(app.callbackUrl) ? [aboutCallback(app)] : []),
    ];
    const [question] = questions;
    if (!question || questions.length === 1) return question;
    return {
      heading: 'Save these changes',
      consequences: questions.flatMap(({ heading, consequences }) => [`${heading}: ${consequences.join(' ')}`]),
      verb: 'Save changes',
      subject: questions.map(({ subject }) => subject).join(' '),
    };
  };

  const page = pages.page(
    'admin/connected-apps/save-question',
    async ({ req, res, form }: PageRequest<FormView<typeof changedAppForm>>) => {
      const app = await reader.read(String(req.params.id));
      const cancel = req.originalUrl.replace(ASKED, '?');
      const question = form && (await questionAbout(app, changesIn(form, app)));
      if (!question) {
        res.redirect(303, cancel);
        return undefined;
      }
      return { title: `${question.heading}?`, question, form, action: urlOf(app.id), cancel };
    },
  );

  return {
    handler: page.handler,
    isAsked: (req: Request) => ASKED.test(req.originalUrl),

    /** @throws AppError `invalid_request` if there is a question, unless `confirmed` answers it */
    async ask(app: AppView, changes: Changes, confirmed: string): Promise<void> {
      const question = await questionAbout(app, changes);
      if (!question || question.subject === confirmed) return;
      throw new AppError('invalid_request', {
        faults: [{ pointer: '#/confirmed', rule: 'unconfirmed', detail: question.heading }],
      });
    },

    /** Returns the page with the question, if the form was refused because of it. */
    pageOf(id: string, form: FormView<typeof changedAppForm>): FormPage | undefined {
      if (!form.faults.some(({ field }) => field === 'confirmed')) return undefined;
      return page.at(`${urlOf(id)}?ask=yes`, { ...form, faults: [] });
    },
  };
}

const ASKED = /\?ask=yes&/;

const changesIn = ({ values }: FormView<typeof changedAppForm>, { callbackUrl }: AppView): Changes => ({
  scopes: scopesOf(values),
  callbackUrls: values.callbackUrl.length > 0 ? [...values.callbackUrl] : [callbackUrl],
});

export function aboutScopes({ scopes, connections, exact }: NonNullable<AppView['missingScopes']>): SaveQuestion {
  const [noun, them, some] = scopes.length === 1 ? ['scope', 'it', ''] : ['scopes', 'them', 'some of '];
  const isSingle = connections === 1 && exact;
  const count = `${exact ? '' : 'At least '}${connections.toLocaleString('en-GB')} connections`;
  return {
    heading: `Add the ${noun} ${scopes.join(', ')}`,
    consequences: [
      isSingle
        ? `One connection lacks ${some}${them} until its user consents again. It keeps working without ${them}.`
        : `${count} lack ${some}${them} until their users consent again. They keep working without ${them}.`,
    ],
    verb: scopes.length === 1 ? 'Add scope' : `Add ${scopes.length} scopes`,
    subject: scopes.join(' '),
  };
}

const aboutCallback = ({ callbackUrl }: AppView): SaveQuestion => ({
  heading: 'Remove the callback URL of this Gatehouse',
  consequences: [`Users cannot sign in or connect with the app until ${callbackUrl} is in the list again.`],
  verb: 'Remove callback URL',
  subject: callbackUrl,
});
