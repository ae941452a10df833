/** The pages of connected apps: the list, and one app with its form. */
import type { NextFunction, Request, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { formField } from '../../../shared/http/body.ts';
import { parseInput } from '../../../shared/http/operation.ts';
import { type FormView, formHandler, recordVersion, typedIn } from '../../../shared/pages/form.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import { nearMiss } from '../../../shared/provider/callback-url.ts';
import type { ProviderFacts } from '../../connected-apps/provider-facts.ts';
import { secretAge } from '../credential.ts';
import type { AdminPageData, AdminPageOfList, AdminPages, PageRequest } from '../page.ts';
import { type TimelineSection, timelineSection } from '../timeline/section.ts';
import type { Timelines } from '../timeline/timeline.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { APP_COLUMNS, type AppRow } from './columns.ts';
import { DRAWN_FIELDS, type DrawnField, drawnSettings } from './drawn-fields.ts';
import type { ConnectedAppFacts } from './facts.ts';
import { APP_FIELDS, changedAppForm, registrationOf, scopesOf, valuesOfApp } from './form.ts';
import { lackingText, NOTICES } from './notices.ts';
import type { ProviderReading } from './provider-reading.ts';
import { type AppView, changedApp, registrationIn } from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/connected-apps/list': AdminPageOfList & { apps: readonly AppRow[]; unreadable: readonly string[] };
    'admin/connected-apps/one': AdminPageData & {
      app: AppRow;
      connections: number;
      timeline: TimelineSection;
      form: ChangedForm;
      drawn: readonly DrawnField[];
      /** Label and value, if it is set, of what an app of the file shows below its main settings. */
      settings: readonly (readonly [label: string, value: string | undefined])[];
      provider: ProviderFacts | undefined;
      callbackPattern: string;
    };
  }
}

type ChangedForm = FormView<typeof changedAppForm>;

export function connectedAppPages(parts: {
  facts: ConnectedAppFacts;
  changes: ConnectedAppChanges;
  provider: ProviderReading;
  timelines: Pick<Timelines, 'ofApp'>;
  pages: AdminPages;
  clock: () => number;
  publicHref: string;
  basePath: string;
}) {
  const { facts, changes, provider, timelines, pages, clock, publicHref, basePath } = parts;
  const home = `${basePath}/admin/connected-apps`;
  const idOf = (req: Request) => String(req.params.id);

  const rowOf = (app: AppView): AppRow => {
    const { clientSecretSetAt: setAt, clientSecretExpiresAt: expiresAt } = app;
    return { ...app, secret: secretAge({ setAt, expiresAt }, clock()) };
  };

  const list = pages.page('admin/connected-apps/list', async ({ req, res }) => {
    const found = await pages.list(req, res, {
      name: 'connected-apps',
      fields: ['q'],
      columns: APP_COLUMNS,
      read: facts.page,
    });
    if (!found) return undefined;
    const { items, list: shown } = found;
    return { title: 'Connected apps', apps: items.map(rowOf), unreadable: await facts.unreadable(), list: shown };
  });

  const one = pages.page(
    'admin/connected-apps/one',
    async ({ req, form: typed }: PageRequest<Partial<ChangedForm>>) => {
      const app = await facts.one(idOf(req));
      const form = withConfirmed(app, {
        values: { ...valuesOfApp(app), version: '', confirmed: '' },
        faults: [],
        ...typed,
      });
      return {
        title: app.name,
        faults: form.faults,
        app: rowOf(app),
        connections: app.connections ?? 0,
        timeline: await timelineSection(req, (query) => timelines.ofApp(app, query)),
        form,
        drawn: DRAWN_FIELDS,
        settings: settingsOf(app),
        provider: await provider.shown(form),
        callbackPattern: app.callbackUrl,
      };
    },
  );

  /** The form with what the provider offers. A field that the administrator has changed stays. */
  const withProvider = async (typed: Omit<ChangedForm, 'faults'>): Promise<ChangedForm> => {
    const { facts: offered, faults } = await provider.read(typed.values);
    if (!offered) return { ...typed, faults };
    const method = provider.methodFor(typed.values.tokenEndpointAuthMethod, offered);
    return { ...typed, values: { ...typed.values, isRead: 'yes', tokenEndpointAuthMethod: method }, faults };
  };

  const save = formHandler({
    ...CHANGED_FORM,
    pages,
    async work(req, { version, confirmed, ...form }) {
      const earlier = await facts.one(idOf(req));
      const { id, disabled, callbackUrl: ownUrl } = earlier;
      const typedUrls = form.callbackUrl;
      const typed = registrationOf(form, typedUrls.length > 0 ? typedUrls : [ownUrl]);
      const changed = parseInput(changedApp, { ...typed, disabled, version });
      const lacking = await facts.lacking(earlier, changed.scopes);
      if (lacking.connections > 0 && lacking.scopes.join(' ') !== confirmed) throw unconfirmed(lacking);
      await changes.replace(req, id, changed);
      const addsUrl = changed.callbackUrls.some((url) => !earlier.callbackUrls.includes(url));
      return done(`/${id}`, addsUrl ? NOTICES.saved_callback : NOTICES.saved);
    },
    show: one.show,
  });

  /** The buttons beside the form. */
  const act = formHandler({
    pages,
    schema: z.object({ do: z.enum(['enable', 'add_callback']), version: recordVersion }),
    async work(req, { do: wanted, version }) {
      const app = await facts.one(idOf(req));
      const { id: _, ...registration } = registrationIn(app);
      const near = nearMiss(app.callbackUrls, app.callbackUrl, publicHref);
      const changed =
        wanted === 'add_callback'
          ? { callbackUrls: [...app.callbackUrls.filter((url) => url !== near), app.callbackUrl] }
          : { disabled: undefined };
      await changes.replace(req, app.id, { ...registration, ...changed, version });
      return done(`/${app.id}`, NOTICES[wanted]);
    },
    show: (req, res, { faults }) => one.show(req, res, { faults }),
  });

  const done = (path: string, notice: Notice) => ({ url: home + path, flash: { notice } });

  return {
    list: list.handler,
    one: one.handler,

    async change(req: Request, res: Response, next: NextFunction) {
      const wanted = formField(req.body, 'do');
      if (wanted === 'save') return save(req, res, next);
      if (wanted !== 'read_provider') return act(req, res, next);
      const form = await withProvider(typedIn(CHANGED_FORM, req.body));
      return one.show(req, res.status(form.faults.length > 0 ? 400 : 200), form);
    },
  };
}

const CHANGED_FORM = { schema: changedAppForm, secrets: ['clientSecret'] as const, fieldOf: APP_FIELDS };

function unconfirmed(lacking: NonNullable<AppView['lacking']>): AppError {
  const fault = { pointer: '#/confirmed', rule: 'lacking', detail: lackingText(lacking) };
  return new AppError('invalid_request', { detail: fault.detail, faults: [fault] });
}

/** The form that says how many connections lack added scopes confirms these when it is saved again. */
function withConfirmed({ scopes }: AppView, form: ChangedForm): ChangedForm {
  const { values, faults } = form;
  if (!faults.some(({ field }) => field === 'confirmed')) return form;
  const confirmed = scopesOf(values)
    .filter((scope) => !scopes.includes(scope))
    .join(' ');
  const shown = faults.map((fault) => (fault.field === 'confirmed' ? { ...fault, field: 'moreScopes' } : fault));
  return { ...form, values: { ...values, confirmed }, faults: shown };
}

function settingsOf(app: AppView): (readonly [label: string, value: string | undefined])[] {
  return [
    ['Client authentication', app.tokenEndpointAuthMethod],
    ['Discovery URL', app.discoveryUrl],
    ['Path of the current thread', app.threadPath],
    ...drawnSettings(app),
  ];
}
