/** The settings of a connected app: a form, and the buttons beside it. */
import type { NextFunction, Request, Response } from 'express';
import { z } from 'zod';
import { formField } from '../../../shared/http/body.ts';
import { parseInput } from '../../../shared/http/operation.ts';
import { type FormValues, type FormView, formHandler, submittedValues } from '../../../shared/pages/form.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import type { ProviderFacts } from '../../connected-apps/provider-facts.ts';
import type { ScheduledChecks } from '../../connected-apps/scheduled-checks.ts';
import type { Editing } from '../editing.ts';
import type { AdminPages, PageRequest } from '../page.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { DRAWN_FIELDS, type DrawnField, drawnSettings, withGroups } from './drawn-fields.ts';
import { membersOfApp, valuesOfMembers } from './editing.ts';
import { APP_INPUTS, changedAppForm, enteredMembers, tidied, valuesOfApp } from './form.ts';
import { NOTICES } from './notices.ts';
import type { AppPageData, ContentOfApp } from './pages.ts';
import type { ProviderReading } from './provider-reading.ts';
import type { ConnectedAppReader } from './reader.ts';
import { saveQuestion } from './save-question.ts';
import { type AppView, changedAppOfForm, registrationIn } from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/connected-apps/settings': AppPageData & {
      form: ChangedForm;
      /** The form has values that are not saved, although nobody has changed them on this page. */
      isUnsaved: boolean;
      drawn: readonly DrawnField[];
      /** The settings that the page shows only for an app of the file. */
      settings: readonly (readonly [label: string, value: string | undefined])[];
      provider: ProviderFacts | undefined;
    };
  }
}

type ChangedForm = FormView<typeof changedAppForm> & { provider?: ProviderFacts };

export function connectedAppSettings(parts: {
  reader: ConnectedAppReader;
  changes: ConnectedAppChanges;
  editing: Editing;
  provider: ProviderReading;
  whenChecked: ScheduledChecks['whenChecked'];
  contentOf: ContentOfApp;
  pages: AdminPages;
  basePath: string;
}) {
  const { reader, changes, editing, provider, whenChecked, contentOf, pages, basePath } = parts;
  const idOf = (req: Request) => String(req.params.id);
  const urlOf = (id: string) => `${basePath}/admin/connected-apps/${encodeURIComponent(id)}/settings`;

  const settingsPage = pages.page(
    'admin/connected-apps/settings',
    async ({ req, form: submitted }: PageRequest<Partial<ChangedForm>>) => {
      const app = await reader.read(idOf(req));
      const values = { ...valuesOfApp(app), base: editing.baseOf(membersOfApp(app)), confirmed: '' };
      const form = { values, faults: [], ...submitted };
      return {
        ...contentOf(app, 'settings'),
        faults: form.faults,
        form,
        isUnsaved: submitted?.values !== undefined,
        drawn: DRAWN_FIELDS,
        settings: settingsOf(app),
        provider: form.provider ?? (await provider.readAgain(form)),
      };
    },
  );

  /** Adds the metadata of the provider, and keeps the fields that the administrator has changed. */
  const withProvider = async (form: Omit<ChangedForm, 'faults'>): Promise<ChangedForm> => {
    const { facts, faults } = await provider.read(form.values);
    if (!facts) return { ...form, faults };
    const method = provider.methodFor(form.values.tokenEndpointAuthMethod, facts);
    return {
      ...form,
      values: { ...form.values, isRead: 'yes', tokenEndpointAuthMethod: method },
      faults,
      provider: facts,
    };
  };

  const save = formHandler({
    ...CHANGED_FORM,
    pages,
    work: (req, { base, confirmed, ...form }) =>
      editing.save(idOf(req), async () => {
        const storedApp = await reader.read(idOf(req));
        const { id, disabled, version, callbackUrl: defaultUrl } = storedApp;
        const clientSecret = form.clientSecret || undefined;
        const edit = {
          id,
          base,
          current: membersOfApp(storedApp),
          form: {
            ...enteredMembers(form, form.callbackUrl.length > 0 ? form.callbackUrl : [defaultUrl]),
            ...(clientSecret && { clientSecret }),
          },
          valuesOf: valuesOfMembers,
        };
        return editing.merge(req, edit, async ({ merged, withKept }) => {
          const changed = parseInput(changedAppOfForm, { ...withGroups(merged), clientSecret, disabled, version });
          await changes.replace(req, id, changed, async () => {
            const missing = await reader.countMissingScopes(storedApp, changed.scopes);
            const question = saveQuestion(storedApp, changed.callbackUrls, missing);
            if (question && question.subject !== confirmed) throw question;
          });
          await whenChecked(id);
          const addsUrl = changed.callbackUrls.some((url) => !storedApp.callbackUrls.includes(url));
          return redirectTo(id, withKept(addsUrl ? NOTICES.saved_callback : NOTICES.saved));
        });
      }),
    page: (req, form) => settingsPage.at(urlOf(idOf(req)), form),
  });

  /** Handles the buttons next to the form. */
  const applyButton = formHandler({
    pages,
    schema: z.object({ do: z.enum(['enable', 'add_callback']) }),
    work: (req, { do: action }) =>
      editing.save(idOf(req), async () => {
        const app = await reader.read(idOf(req));
        const { id, ...registration } = registrationIn(app);
        const callbackUrls = [...new Set([...app.callbackUrls, app.callbackUrl])];
        const changed = action === 'add_callback' ? { callbackUrls } : { disabled: false };
        await changes.replace(req, id, { ...registration, ...changed, version: app.version ?? 0 });
        await whenChecked(id);
        return redirectTo(id, NOTICES[action]);
      }),
    page: (req, { faults }) => settingsPage.at(urlOf(idOf(req)), { faults }),
  });

  const redirectTo = (id: string, notice: Notice) => ({ url: urlOf(id), flash: { notice } });

  return {
    page: settingsPage.handler,

    async change(req: Request, res: Response, next: NextFunction) {
      const action = formField(req.body, 'do');
      if (action === 'save') return save(req, res, next);
      if (action !== 'read_provider') return applyButton(req, res, next);
      const form = await withProvider(submittedValues(CHANGED_FORM, req.body));
      return pages.redirectToForm(req, res, urlOf(idOf(req)), { status: form.faults.length > 0 ? 400 : 200, form });
    },
  };
}

const CHANGED_FORM = {
  schema: changedAppForm,
  secrets: ['clientSecret'] as const,
  fieldOf: APP_INPUTS,
  tidy: tidied<FormValues<typeof changedAppForm>>,
};

function settingsOf(app: AppView): (readonly [label: string, value: string | undefined])[] {
  return [
    ['Client authentication', app.tokenEndpointAuthMethod],
    ['Discovery URL', app.discoveryUrl],
    ['Path of the current thread', app.threadPath],
    ...drawnSettings(app),
  ];
}
